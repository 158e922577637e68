"""What happens to a request before it reaches a lane, and what its failures there mean.

Whatever fails there fails because of this request's content: no other request is affected, and
the same request would fail again. So nothing there is a failure of the engine as a backend.
"""

import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from local_engine.child_process.fair_gate import Gate
from local_engine.child_process.text_encoder import INLINE, Offload, run_offloaded
from schemas.errors import GatewayError, InvalidRequest

_Result = TypeVar("_Result")


@contextmanager
def preparing() -> Generator[None]:
    """Turns what our code did not expect into an error of this request alone.

    Raises InvalidRequest for a request that is nested too deep, and for any other exception a
    plain GatewayError (500): our bug, which no retry, no other backend and no breaker cures.
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
            "the engine cannot read this request, which is a bug of its own"
        ) from exc


async def read(
    reader: Callable[[Offload | None], _Result], *, size: int, gate: Gate, tenant: str
) -> _Result:
    """What is long is read in a thread, in turns by tenant. size: characters or tokens."""
    if size <= INLINE:
        return reader(None)
    async with gate.turn(tenant):
        return await run_offloaded(reader)


def _log(exc: Exception) -> None:
    """One line, with the file and line of our own or of a library's code."""
    *_, last = traceback.extract_tb(exc.__traceback__)
    error = f"{type(exc).__name__}: {exc}"[:400]
    where = f"{last.filename}:{last.lineno}"
    print(f"a request cannot be read, at {where}: {error!r}", file=sys.stderr, flush=True)
