"""The environment of child processes that run the gateway's own modules with `python -m`."""

import os
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)
"""The folder that contains the packages."""


def child_environment() -> dict[str, str]:
    """Return our environment, with the packages' folder first on PYTHONPATH."""
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": ROOT if not inherited else os.pathsep.join((ROOT, inherited)),
    }
