"""Prepare a request before it reaches a lane, and classify failures on the way.

A failure here is caused by the request's content: no other request is affected, and the same
request would fail again. So it never counts as a failure of the engine as a backend.
"""

import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from strowger_gateway.local_engine.child_process.fair_gate import Gate
from strowger_gateway.local_engine.child_process.text_encoder import INLINE, Offload, run_offloaded
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.holdings import Holder

_Result = TypeVar("_Result")


@contextmanager
def preparing() -> Generator[None]:
    """Turn unexpected exceptions into an error of this request only.

    Raises InvalidRequest for a request that is nested too deep, and a plain GatewayError (500) for
    any other exception: a bug of the engine that no retry, other backend or breaker fixes.
    """
    try:
        yield
    except GatewayError:
        raise
    except RecursionError as exc:
        raise InvalidRequest("the request is nested too deep to be read; flatten it") from exc
    except Exception as exc:
        _log(exc)
        raise GatewayError(
            "the engine failed to read this request because of a bug in the engine"
        ) from exc


async def read(
    reader: Callable[[Offload | None], _Result], *, size: int, gate: Gate, holder: Holder
) -> _Result:
    """Read a request; a long one in a thread, in turn by key. size: characters or tokens."""
    if size <= INLINE:
        return reader(None)
    async with gate.slot(holder):
        return await run_offloaded(reader)


def _log(exc: Exception) -> None:
    """Log one line with the file and line where the exception was raised."""
    *_, last = traceback.extract_tb(exc.__traceback__)
    error = f"{type(exc).__name__}: {exc}"[:400]
    where = f"{last.filename}:{last.lineno}"
    print(f"failed to read a request at {where}: {error!r}", file=sys.stderr, flush=True)
