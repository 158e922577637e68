"""The entry of the `strowger` command: checks the installation, then hands over to click."""

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("schemas", "adapters", "local_engine", "gateway")


def main() -> None:
    """Exit statuses: 0 fine, 1 the configuration or the installation is wrong, 2 wrong usage."""
    fault = installation_fault()
    if fault:
        sys.stderr.write(f"strowger: {fault}\n")
        raise SystemExit(1)
    # Imported late: a stray package of one of these names would fail here first, and obscurely.
    from gateway.cli.main import strowger

    strowger(prog_name="strowger")


def installation_fault() -> str:
    """ "" if our four packages lie side by side; else which one is somebody else's."""
    here = Path(__file__).resolve().parent.parent.parent
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            return f"the package {package!r} is missing; install strowger-gateway again"
        parent = Path(spec.origin).resolve().parent.parent
        if parent != here:
            return (
                f"another package named {package!r}, in {parent}, hides ours, in {here}; take its "
                "folder off PYTHONPATH, or install strowger-gateway in an environment of its own"
            )
    return ""
