"""Wait for the first events of a stream, and send its head before them if they are late."""

import asyncio
from collections.abc import AsyncGenerator

from gateway.asgi.response import ResponseWriter
from gateway.eventloop.inline_task import in_task
from gateway.state import Gateway
from schemas.events import Event


async def first_batch(
    source: AsyncGenerator[list[Event], None],
    response: ResponseWriter,
    gateway: Gateway,
    comment: bytes,
) -> list[Event]:
    """Return the first batch; with `commit_after_s`, send a head and comments if it is late."""
    after_s = gateway.runtime.config.server.commit_after_s
    if after_s is None:
        return await anext(source)
    await in_task()
    first = asyncio.ensure_future(anext(source))
    try:
        await asyncio.wait({first}, timeout=after_s)
        if not first.done():
            await response.start()
            await response.frame(comment)
            gateway.keepalive.add(response, comment)
        return await first
    finally:
        if not first.done():
            first.cancel()
            await asyncio.wait({first})
