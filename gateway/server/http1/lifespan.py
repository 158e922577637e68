"""Start and stop an application. https://asgi.readthedocs.io/en/latest/specs/lifespan.html"""

import asyncio
from typing import cast

from litestar.types import LifeSpanReceiveMessage, LifeSpanScope, LifeSpanSendMessage

from strowger_gateway.gateway.server.http1.application import Application


class Lifespan:
    """The application's own start and stop. Both raise RuntimeError if the application fails."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._requests: asyncio.Queue[LifeSpanReceiveMessage] = asyncio.Queue()
        self._answers: asyncio.Queue[LifeSpanSendMessage] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when the application has started."""
        self._task = asyncio.create_task(self._run())
        await self._step({"type": "lifespan.startup"})

    async def stop(self) -> None:
        """Return when the application has stopped; it must have been started."""
        await self._step({"type": "lifespan.shutdown"})
        if self._task is not None:
            await self._task

    async def _step(self, message: LifeSpanReceiveMessage) -> None:
        assert self._task is not None
        await self._requests.put(message)
        answered = asyncio.create_task(self._answers.get())
        await asyncio.wait({self._task, answered}, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            answered.cancel()
            await self._task  # raises what ended it
            raise RuntimeError(f"the application ended without answering {message['type']}")
        answer = answered.result()
        if answer["type"] != message["type"] + ".complete":
            raise RuntimeError(str(cast("dict[str, object]", answer).get("message", "")))

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        await self._application(
            cast(LifeSpanScope, scope),  # pyright: ignore[reportArgumentType]
            self._requests.get,  # pyright: ignore[reportArgumentType]
            self._answers.put,  # pyright: ignore[reportArgumentType]
        )
