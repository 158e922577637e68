"""Wait for the first events of a stream, and send its head before them if they are late."""

import asyncio
from collections.abc import AsyncGenerator

from gateway.asgi.response import ResponseWriter
from gateway.asgi.sse_keepalive import SseKeepAlive
from gateway.eventloop.inline_task import in_task
from schemas.events import Event


async def first_or_commit(
    source: AsyncGenerator[list[Event], None],
    response: ResponseWriter,
    keepalive: SseKeepAlive,
    comment: bytes,
    after_s: float,
) -> list[Event]:
    """Return the first batch; if it takes longer than `after_s`, send a head and comments."""
    await in_task()
    first = asyncio.ensure_future(anext(source))
    try:
        await asyncio.wait({first}, timeout=after_s)
        if not first.done():
            await response.start()
            await response.frame(comment)
            keepalive.add(response, comment)
        return await first
    finally:
        if not first.done():
            first.cancel()
            await asyncio.wait({first})
