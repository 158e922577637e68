"""The entry point of the `strowger` command: open closed streams, then run click."""

import os
import sys
from traceback import walk_tb

_OUTPUT = ("click.utils", "rich.console")
"""Modules that print; an error in another one is of a file that the command uses."""


def main() -> None:
    """Exit statuses: 0 success, 1 faulty configuration or output, 2 wrong usage."""
    _open_closed_streams()
    # Late: a file that one of its imports opens would take the number of a closed stream.
    from strowger_gateway.gateway.cli.main import strowger

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


def _module(error: OSError) -> str:
    """Return the module that raised the error."""
    *_, (innermost, _) = walk_tb(error.__traceback__)
    return str(innermost.f_globals["__name__"])
