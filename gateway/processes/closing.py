"""End what ran in a process, in order; and what a gateway gives up when it is handed over."""

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol

from gateway.experiments.service.background_jobs import ExperimentJobs
from gateway.limits.bank import LimitBank
from gateway.limits.carried import CarriedUse, carried
from gateway.limits.limits import RequestLimits
from gateway.recording.setup import Records

if TYPE_CHECKING:
    from gateway.coordination.shared_limits import SharedLimits


class Closes(Protocol):
    """Work of this process that ends with `close`."""

    async def close(self) -> None: ...


async def close_all(tasks: Iterable[asyncio.Task[None]], *groups: Sequence[Closes]) -> None:
    """Cancel the tasks; then close one group after another, the members of each concurrently."""
    for task in tasks:
        task.cancel()
    for group in groups:
        await asyncio.gather(*(one.close() for one in group))


async def release(jobs: ExperimentJobs, records: Records) -> None:
    """End what one gateway may do at a time: the next one does it from now on."""
    await asyncio.gather(jobs.close(), records.release())


def uses_of(limits: "RequestLimits | LimitBank | SharedLimits") -> tuple[CarriedUse, ...]:
    """Return what counts towards limits in this gateway; nothing if Redis counts it."""
    if isinstance(limits, RequestLimits | LimitBank):
        return carried(limits.accounts(), monotonic_ns())
    return ()
