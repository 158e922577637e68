"""The entry point of the `strowger` command: check the installation, then run click."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb

PACKAGES = ("schemas", "adapters", "local_engine", "gateway")
_OUTPUT = ("click.utils", "rich.console")
"""Modules that print; an error in another one is of a file that the command uses."""


def main() -> None:
    """Exit statuses: 0 success, 1 faulty configuration, installation or output, 2 wrong usage."""
    _open_closed_streams()
    fault = installation_fault()
    if fault:
        sys.stderr.write(f"strowger: {fault}\n")
        raise SystemExit(1)
    # Late: a stray package with one of these names would otherwise fail here, without a clue.
    from gateway.cli.main import strowger

    try:
        strowger(prog_name="strowger")
    except OSError as error:
        raised_in = _module(error)
        if raised_in == "tempfile":
            sys.stderr.write(f"strowger: {error.strerror}; name a writable folder in TMPDIR\n")
            raise SystemExit(1) from None
        if raised_in not in _OUTPUT:
            raise
        # What is still buffered would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"strowger: cannot write the output: {error.strerror}\n")
        raise SystemExit(1) from None


def _open_closed_streams() -> None:
    """Open standard streams that are closed, so that no file of the command takes their numbers.

    Child processes inherit them; without stderr, the importing process would end at its start.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, os.fdopen(opened, mode))


def installation_fault() -> str:
    """Return "" if our four packages are in one folder, else which one comes from elsewhere."""
    here = Path(__file__).resolve().parent.parent.parent
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            return f"the package {package!r} is missing; install strowger-gateway again"
        parent = Path(spec.origin).resolve().parent.parent
        if parent != here:
            return (
                f"another package named {package!r}, in {parent}, hides ours, in {here}; remove "
                "its folder from PYTHONPATH, or install strowger-gateway in its own environment"
            )
    return ""


def _module(error: OSError) -> str:
    """Return the module that raised the error."""
    *_, (innermost, _) = walk_tb(error.__traceback__)
    return str(innermost.f_globals["__name__"])
