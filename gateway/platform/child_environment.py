"""The environment of child processes that run modules of ours."""

import os
from pathlib import Path

import strowger_gateway
from strowger_gateway.local_engine.child_process.interpreter import import_path

ROOT = str(Path(strowger_gateway.__file__).resolve().parent.parent)
"""The folder that contains the package."""


def child_environment() -> dict[str, str]:
    """Return our environment, with a PYTHONPATH that leads to the modules that we use."""
    return {**os.environ, "PYTHONPATH": import_path()}
