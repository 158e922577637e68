"""Name the model in whatever goes wrong while it is loaded, so that its engine fails for good.

A restart repeats all of it: the gateway shows such an engine as failed instead of restarting it.
"""

import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager

import torch

from strowger_gateway.local_engine.loading.families import ELSEWHERE
from strowger_gateway.schemas.errors import InvalidConfig

LONGEST = 400
"""Characters of an exception that are repeated."""

MEMORY = (MemoryError, torch.OutOfMemoryError)
ABSENT = (ImportError,)


@contextmanager
def model_named(name: str, path: str) -> Generator[None, None, None]:
    """Raise InvalidConfig naming the model for every exception inside."""
    try:
        yield
    except InvalidConfig as exc:
        if all(path in problem for problem in exc.problems):
            raise
        named = (f"{name}: the model at {path}: {problem}" for problem in exc.problems)
        raise InvalidConfig(tuple(map(_with_remedy, named))) from exc
    except Exception as exc:
        traceback.print_exc(file=sys.stderr)
        raise InvalidConfig(
            (f"{name}: the model at {path} cannot be served: {cause(exc)}",)
        ) from exc


def _with_remedy(problem: str) -> str:
    return problem if ";" in problem else f"{problem}; {ELSEWHERE}"


def one_line(exc: BaseException) -> str:
    """Return an exception's text, or its beginning, on one line."""
    said = " ".join(str(exc).split())
    return said if len(said) <= LONGEST else f"{said[:LONGEST]} …"


def cause(exc: BaseException) -> str:
    """Return what happened and the remedy, on one line."""
    said = one_line(exc)
    kind = type(exc).__name__
    if isinstance(exc, MEMORY):
        return (
            f"it does not fit into memory ({said or kind}); free memory, take a smaller model, or "
            "set engine.kv_cache and engine.max_seq_len lower"
        )
    if isinstance(exc, ABSENT):
        return f"it needs a package that this engine does not use ({said}); {ELSEWHERE}"
    return f"{kind}: {said}; this engine does not support it as it is stored: {ELSEWHERE}"
