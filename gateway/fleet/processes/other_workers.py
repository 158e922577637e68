"""The other processes, as a worker sees them: asked through the leader, or the leader itself."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, TypeVar

import msgspec

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.part_messages import PartDecoder, packed, unpacked
from strowger_gateway.gateway.fleet.processes.channel import Channel
from strowger_gateway.gateway.fleet.processes.messages import (
    AskPeers,
    MetricsRequest,
    PartMessage,
    PartQuestion,
    PeerAnswers,
    Question,
    RecentRequestsQuery,
    SeriesRequest,
    ToWorker,
    WorkerInit,
)
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import MetricFamilies
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.parts.leader_side import LeaderSide
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries
from strowger_gateway.gateway.storage.sql.traffic.windows import Window
from strowger_gateway.schemas.errors import Unavailable

PEER_TIMEOUT_S = 2.0
"""Timeout of the answers of the other processes."""

T = TypeVar("T")

_families: msgspec.msgpack.Decoder[MetricFamilies] = msgspec.msgpack.Decoder(MetricFamilies)
_series: msgspec.msgpack.Decoder[tuple[BackendSeries, ...]] = msgspec.msgpack.Decoder(
    tuple[BackendSeries, ...]
)
_recent: msgspec.msgpack.Decoder[list[RecentRequest]] = msgspec.msgpack.Decoder(list[RecentRequest])


class OtherWorkers:
    """The other workers and the leader, queried through the leader."""

    def __init__(self, channel: Channel[ToWorker]) -> None:
        self._channel = channel
        self._ids = count(1)
        self._pending: dict[int, asyncio.Future[tuple[bytes, ...]]] = {}

    async def counted(self) -> list[MetricFamilies]:
        """See Peers.counted."""
        return [_families.decode(body) for body in await self._ask_all(MetricsRequest())]

    async def series_by_backend(self, window: Window, at: float) -> list[tuple[BackendSeries, ...]]:
        """See Peers.series_by_backend."""
        query = SeriesRequest(window=window, at=at)
        return [_series.decode(body) for body in await self._ask_all(query)]

    async def recent(self, limit: int, request_id: str) -> list[list[RecentRequest]]:
        """See Peers.recent."""
        query = RecentRequestsQuery(limit=limit, request_id=request_id)
        return [_recent.decode(body) for body in await self._ask_all(query)]

    async def ask_part(self, part: str, question: object, kind: type[T]) -> T:
        """Ask the part's side in the leader. Raises Unavailable."""
        body = packed(question)
        answers = await self._ask(lambda number: PartQuestion(id=number, part=part, body=body))
        if not answers:
            raise Unavailable(f"{part} cannot answer", retry_after=1)
        return unpacked(answers[0], kind)

    def on_message(self, answers: PeerAnswers) -> None:
        waiting = self._pending.get(answers.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answers.bodies)

    def _ask_all(self, question: Question) -> Awaitable[tuple[bytes, ...]]:
        return self._ask(lambda number: AskPeers(id=number, question=question))

    async def _ask(self, numbered: Callable[[int], AskPeers | PartQuestion]) -> tuple[bytes, ...]:
        number = next(self._ids)
        waiting = self._pending[number] = asyncio.get_running_loop().create_future()
        self._channel.send(numbered(number))
        try:
            async with asyncio.timeout(PEER_TIMEOUT_S):
                return await waiting
        except TimeoutError:
            raise Unavailable("the other processes do not answer", retry_after=1) from None
        finally:
            del self._pending[number]


class WorkerLink:
    """The `Link` of a worker: its parts' messages to the leader, and from it."""

    alone = False

    def __init__(self, begin: WorkerInit, channel: Channel[ToWorker], others: OtherWorkers) -> None:
        self.worker = begin.worker
        self._first = begin.parts
        self._channel = channel
        self._others = others
        self._decoder = PartDecoder()

    def leader(self, part: str) -> LeaderSide[Any, Any] | None:
        return None

    def first(self, part: str, kind: type[T], /) -> T | None:
        body = self._first.get(part)
        return None if body is None else unpacked(body, kind)

    def send(self, part: str, message: object) -> None:
        self._channel.send(PartMessage(part=part, body=packed(message)))

    def ask(self, part: str, question: object, kind: type[T], /) -> Awaitable[T]:
        return self._others.ask_part(part, question, kind)

    def received(self, message: PartMessage, receives: Any) -> Any:
        """Decode a message of the leader's side. receives: the type that the side declares."""
        return self._decoder.decode(message.part, message.body, receives)


def answer_of(gateway: Gateway, question: Question) -> bytes:
    """Answer what another process asks of this one."""
    match question:
        case MetricsRequest():
            return packed(gateway.processes.counted())
        case SeriesRequest():
            return packed(gateway.log.own_series(question.window, question.at))
        case RecentRequestsQuery():
            return packed(gateway.log.own_recent(question.limit, question.request_id))
