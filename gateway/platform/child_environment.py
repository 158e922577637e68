"""The environment of child processes that run the gateway's own modules with `python -m`."""

import os
from pathlib import Path

import strowger_gateway

ROOT = str(Path(strowger_gateway.__file__).resolve().parent.parent)
"""The folder that contains the package."""


def child_environment() -> dict[str, str]:
    """Return our environment, with the package's folder first on PYTHONPATH."""
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": ROOT if not inherited else os.pathsep.join((ROOT, inherited)),
    }
