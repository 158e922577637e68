"""Name what is in an answer as the client named it, if its request was sent with other names."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from adapters.repairs.rule import Undo
from schemas.events import Event, ToolDelta


async def undone(
    source: AsyncGenerator[list[Event], None], undo: Undo
) -> AsyncGenerator[list[Event], None]:
    """Yield the batches with the client's names. Closes the source when it is closed itself."""
    async with aclosing(source) as batches:
        async for batch in batches:
            yield _with_names(batch, undo)


def _with_names(batch: Sequence[Event], undo: Undo) -> list[Event]:
    return [
        replace(event, name=undo.tools[event.name])
        if isinstance(event, ToolDelta) and event.name in undo.tools
        else event
        for event in batch
    ]
