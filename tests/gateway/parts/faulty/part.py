"""A part with a bug in each method that the configuration names."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, Nothing
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.parts.process_side import ProcessContext
from strowger_gateway.gateway.stages.generation import Generation
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.request_part import Closing, Prepared, RequestPart, RequestSide
from strowger_gateway.gateway.stages.stage import BaseStage, Place, Stage
from strowger_gateway.gateway.surfaces.hot_route import HotRoute

_log = logging.getLogger("strowger")


class Faulty(Struct, frozen=True, kw_only=True):
    """bugs: the methods that fail."""

    bugs: tuple[str, ...] = ()


class Hello(Struct, frozen=True, tag=True):
    """A message, either way."""


Fails = Callable[[str], None]


def failing(config: Callable[[], Config]) -> Fails:
    """Return what fails if the configuration names the method."""

    def fails(method: str) -> None:
        found = config().section(Faulty)
        if found is not None and method in found.bugs:
            raise RuntimeError(f"a bug in {method}")

    return fails


class FaultyPart(RequestPart):
    name = "faulty"
    section = Faulty

    def check(self, config: Config, problems: Problems) -> None:
        failing(lambda: config)("check")

    def restart_needed(self, old: Config, new: Config) -> Mapping[str, str]:
        failing(lambda: new)("restart_needed")
        return {}

    def leader(self, at: LeaderContext) -> "LeaderSide[Any, Any]":
        failing(lambda: at.first)("leader")
        return FaultyLeader(at)

    def process(self, at: ProcessContext) -> "RequestSide[Any, Any]":
        failing(at.config)("process")
        return FaultySide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        return (
            AdminRoute(
                method="GET",
                path="/faulty",
                role="viewer",
                summary="What the leader answers",
                takes=Nothing,
                returns=Hello,
                answer=_hello,
            ),
        )

    def prepare(self, generation: Generation, before: Prepared | None) -> Prepared | None:
        failing(lambda: generation.config)("prepare")
        return FaultyPrepared(generation.config)


async def _hello(call: AdminCall[Nothing]) -> Hello:
    return await call.side(FaultySide).hello()


class FaultyPrepared(Prepared):
    def __init__(self, config: Config) -> None:
        self._fails = failing(lambda: config)

    def closing(self) -> Sequence[Closing]:
        return (self,)

    async def aclose(self) -> None:
        _log.info("what faulty has of a generation is closed")
        self._fails("aclose")


class FaultyLeader(LeaderSide[Hello, Hello]):
    receives, questions, carries = Hello, Hello, int

    def __init__(self, at: LeaderContext) -> None:
        self._at = at
        self._config = at.first
        self._fails = failing(lambda: self._config)
        self._send: dict[int, Callable[[Hello], None]] = {}

    async def prepare(self, config: Config) -> None:
        failing(lambda: config)("leader.prepare")
        self._config = config

    async def start(self) -> None:
        self._fails("leader.start")

    def first(self) -> Hello:
        self._fails("first")
        return Hello()

    def joined(self, worker: int, send: Callable[[Hello], None]) -> None:
        self._fails("joined")
        self._send[worker] = send

    def left(self, worker: int) -> None:
        self._fails("left")

    def on_message(self, worker: int, message: Hello) -> None:
        self._at.broadcast(message)
        self._fails("leader.on_message")

    async def answer(self, question: Hello) -> Hello:
        self._fails("answer")
        return question

    def works(self) -> Sequence[Work]:
        self._fails("leader.works")
        return ()

    def carried(self) -> int:
        self._fails("carried")
        return 1

    def carry(self, found: int) -> None:
        self._fails("carry")

    async def release(self) -> None:
        self._fails("release")

    async def close(self) -> None:
        self._fails("leader.close")


class FaultySide(RequestSide[Hello, Hello]):
    receives = Hello

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
        self._fails = failing(at.config)

    async def hello(self) -> Hello:
        return await self._at.ask(Hello(), Hello)

    async def start(self) -> None:
        self._fails("start")

    async def ready(self, config: Config) -> None:
        failing(lambda: config)("ready")
        failing(lambda: config)(f"ready.{self._at.worker}")

    def use(self, config: Config) -> None:
        self._fails("use")

    def follow(self, generation: Any) -> None:
        self._fails("follow")

    def on_message(self, message: Hello) -> None:
        self._fails("on_message")

    async def idle(self) -> None:
        self._fails("idle")

    def works(self) -> Sequence[Work]:
        self._fails("works")
        return ()

    def taker(self) -> Callable[[EndedRequests], None]:
        self._fails("taker")
        return self._take

    def _take(self, ended: EndedRequests) -> None:
        self._fails("take")

    def stages(self, generation: Generation, prepared: Any, at: HotRoute) -> Sequence[Stage]:
        self._fails("stages")
        return (FaultyStage(self._at, self._fails),)

    async def close(self, within_s: float) -> None:
        self._fails("close")


class FaultyStage(BaseStage):
    """Enters after all that a request holds, so it is left before them."""

    place = Place.EXAMINE
    leaves = True

    def __init__(self, at: ProcessContext, fails: Fails) -> None:
        self._at = at
        self._fails = fails

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        self._at.send(Hello())
        self._fails("enter")
        return None

    def leave(self, request: RequestContext) -> None:
        self._fails("leave")
