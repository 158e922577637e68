"""End what ran in a process, in order."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol


class Closes(Protocol):
    """Work of this process that ends with `close`."""

    async def close(self) -> None: ...


async def close_all(tasks: Iterable[asyncio.Task[None]], *groups: Sequence[Closes]) -> None:
    """End the tasks; then close one group after another, the members of each concurrently."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
    for group in groups:
        await asyncio.gather(*(one.close() for one in group))
