"""The problems of a gateway in a serving process: looked for now, and every few seconds by one."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.problems.backend_problems import (
    engine_problems,
    failure_problems,
    model_problems,
)
from strowger_gateway.gateway.console.problems.book import ProblemBook, since_known
from strowger_gateway.gateway.console.problems.event_rows import (
    EventQuery,
    read_events,
    read_problems,
)
from strowger_gateway.gateway.console.problems.happening import Happening, of_backend
from strowger_gateway.gateway.console.problems.messages import Judged, Known, KnownAsked
from strowger_gateway.gateway.console.problems.metric_rules import (
    CounterTotals,
    metric_problems,
    totals_of,
)
from strowger_gateway.gateway.console.problems.problem import GatewayProblem, by_weight
from strowger_gateway.gateway.console.problems.words import problem
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import merge
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.routing.backend_events.book import KEPT
from strowger_gateway.gateway.routing.backend_events.process_side import BackendEventsSide
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.schemas.errors import GatewayError, Unavailable

JUDGE_S: Final = 5.0
"""Interval between looks at what is wrong."""

OTHERS_S: Final = 5.0
"""What the other gateways have written is read again after so long."""

STORE_S: Final = 2.0
"""The page waits for the store for so long; it shows what it has without it."""


_T = TypeVar("_T")


class ProblemsSide(ProcessSide[None, None]):
    """Without a leader, as in tests, what is known is kept here."""

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
        self._gateway = at.own(Gateway)
        self._own = ProblemBook("") if at.alone and at.leader is None else None
        self._others: dict[str, list[GatewayProblem]] = {}
        self._others_at = float("-inf")

    def works(self) -> Sequence[Work]:
        """The process with the number 0 looks, for all of them."""
        return (("problems", self._judge_all),) if self._at.worker == 0 else ()

    async def current(self) -> list[GatewayProblem]:
        """Return what is wrong now, in this gateway and in those that share its store."""
        found, _ = await self._look()
        known = await self._known()
        problems = since_known(found, known.problems)
        seen = {one.key for one in problems}
        for name, theirs in (await self._of_others()).items():
            if name != known.gateway:
                for one in theirs:
                    if one.key not in seen:
                        seen.add(one.key)
                        problems.append(replace(one, gateway=name))
        return by_weight(problems)

    async def events(self, query: EventQuery) -> tuple[list[Happening], bool]:
        """Return events, the newest first, and whether the store was read.

        Without it, they are the last ones of this gateway.
        """
        known = await self._known()
        own = [one for one in known.events if query.wants(one)][: query.limit]
        stored = await self._read(partial(_stored, query=query))
        if stored is None:
            return own, False
        # The newest of this gateway may not be in the store yet, and the store has all before.
        new = {(one.gateway, one.time, one.kind, one.model, one.backend) for one in own}
        rest = [
            one
            for one in stored
            if (one.gateway, one.time, one.kind, one.model, one.backend) not in new
        ]
        everything = sorted([*own, *rest], key=lambda one: one.time, reverse=True)
        return everything[: query.limit], True

    async def _judge_all(self) -> None:
        while True:
            problems, totals = await self._look()
            if self._own is not None:
                self._own.judge(problems, totals)
            else:
                self._at.send(Judged(problems=tuple(problems), totals=totals))
            await asyncio.sleep(JUDGE_S)

    async def _look(self) -> tuple[list[GatewayProblem], CounterTotals]:
        gateway, at = self._gateway, time.time()
        found = list[GatewayProblem]()
        if gateway.admission.refusing or gateway.admission.draining:
            found.append(problem("draining"))
        reports = await gateway.processes.engine_reports()
        families = gateway.processes.counted(reports)
        try:
            others = await gateway.processes.peers.counted()
            families = merge((families, *others))
            series = await gateway.processes.series_by_backend("5m", at)
            events = await self._at.side(BackendEventsSide).newest(KEPT)
        except Unavailable:
            found.append(problem("process_silent"))
            series, events = gateway.log.own_series("5m", at), []
        now = gateway.processes.clock()
        found += model_problems(gateway.runtime, [one.event for one in events], now, at)
        found += failure_problems(series)
        found += engine_problems(reports)
        found += metric_problems(families, at)
        if not gateway.runtime.ready and not any(one.kind == "engine_down" for one in found):
            found.append(problem("loading"))
        return list({one.key: one for one in found}.values()), totals_of(families, at)

    async def _known(self) -> Known:
        if self._own is not None:
            events = await self._at.side(BackendEventsSide).newest(KEPT)
            mine = [of_backend(one, "") for one in events] + self._own.newest()
            return Known(
                gateway="",
                problems=tuple(self._own.current),
                events=tuple(sorted(mine, key=lambda one: one.time, reverse=True)),
            )
        try:
            return await self._at.ask(KnownAsked(), Known)
        except Unavailable:
            return Known(gateway="")

    async def _of_others(self) -> dict[str, list[GatewayProblem]]:
        now = asyncio.get_running_loop().time()
        if now >= self._others_at + OTHERS_S:
            self._others_at = now
            self._others = await self._read(_problems) or {}
        return self._others

    async def _read(self, work: Callable[[Store], _T]) -> _T | None:
        """Return what the store has; `None` if it does not answer in time."""
        if self._at.access is None:
            return None
        try:
            async with asyncio.timeout(STORE_S):
                return await self._at.access.call(work)
        except (GatewayError, TimeoutError):
            return None


def _stored(store: Store, query: EventQuery) -> list[Happening]:
    return read_events(store.database, query)


def _problems(store: Store) -> dict[str, list[GatewayProblem]]:
    return read_problems(store.database, time.time())
