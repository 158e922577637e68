"""One request at the cache: find its answer, or keep the one that its backend gives."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, Literal

from strowger_gateway.gateway.content.cache.cache import MOST_LEADERS, AnswerCache, Flight
from strowger_gateway.gateway.content.cache.entry import (
    Entry,
    Recording,
    decoded,
    entry_of_answer,
    entry_of_events,
    entry_of_plain,
    entry_of_task,
    entry_of_vectors,
)
from strowger_gateway.gateway.content.cache.key import CacheRules, KeyPlace, Use, cache_key
from strowger_gateway.gateway.content.cache.remote_store import CacheUnavailable, RemoteStore
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.participation import NO_PARTICIPATION
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.request_record import CacheUse, RequestRecord
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import DeadlineExceeded
from strowger_gateway.schemas.events import Event, EventSink, EventSource
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.task import TaskAnswer

Headers = list[tuple[bytes, bytes]]
Offload = Callable[[Callable[[], str | None]], Awaitable[str | None]]
"""Runs a call in a thread, when it is its caller's turn."""

_SAYS: Final[Mapping[str, tuple[bytes, bytes]]] = {
    outcome: (b"x-gateway-cache", outcome.encode()) for outcome in ("hit", "miss", "bypass")
}
PASSED = "the request's deadline has passed while it waited for an equal request"


class CachedRequest:
    """Use it once. What it returns is as the backend gave it: guardrails come after it.

    An answer is kept when it has passed them: `kept` around the events that leave; `keep`, and
    `close` in any case, around anything else.
    """

    __slots__ = (
        "_cache",
        "_data",
        "_flagged",
        "_flight",
        "_headers",
        "_key",
        "_offload",
        "_record",
        "_request",
        "_rules",
        "_unwritable",
        "_use",
    )

    def __init__(
        self,
        cache: AnswerCache,
        rules: CacheRules,
        use: Use,
        request: Request,
        record: RequestRecord,
        headers: Headers | None,
        offload: Offload | None,
        flagged: Callable[[], bool],
    ) -> None:
        """request: with the operator's values. headers: of the response; `None` to show nothing.

        offload: for a large request. flagged: whether a guardrail has found something so far.
        """
        self._cache = cache
        self._rules = rules
        self._use = use
        self._request = request
        self._record = record
        self._headers = headers
        self._offload = offload
        self._flagged = flagged
        self._key = ""
        self._flight: Flight | None = None
        self._data: bytes | None = None
        self._unwritable = False

    async def events(self, source: EventSource, plan: Plan) -> EventSource:
        """The events of a kept answer, or those of the source, which has not begun."""
        async with aclosing(source):
            entry = await self._find(plan)
            if entry is not None:
                yield entry.events()
                return
            if self._flight is None:
                sink: EventSink | None = None
                while (batch := await _next(source, sink)) is not None:
                    sink = yield batch
                return
            recording = Recording(self._rules.config.max_entry_bytes)
            sink = None
            while (batch := await _next(source, sink)) is not None:
                self._add(recording, batch)
                client = yield batch
                sink = None if client is None else partial(self._add_and_pass, recording, client)
            if recording.complete:
                self._note(entry_of_events(recording.events(), self._record))

    async def chat(
        self, plan: Plan, call: Callable[[], Awaitable[Answer | PlainAnswer]]
    ) -> Answer | PlainAnswer:
        """A kept answer to a chat, or what `call` returns; plain answers are kept as such."""
        entry = await self._find(plan)
        found = None if entry is None else entry.chat()
        answer = await call() if found is None else found
        if self._flight is not None:
            plain = type(answer) is PlainAnswer
            record = self._record
            self._note(entry_of_plain(answer, record) if plain else entry_of_answer(answer, record))
        return answer

    async def answer(self, plan: Plan, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """A kept answer, or what `call` returns."""
        entry = await self._find(plan)
        found = None if entry is None else entry.answer()
        answer = found or await call()
        if self._flight is not None:
            self._note(entry_of_answer(answer, self._record))
        return answer

    async def vectors(self, plan: Plan, call: Callable[[], Awaitable[Embeddings]]) -> Embeddings:
        """Kept vectors, or what `call` returns."""
        entry = await self._find(plan)
        found = None if entry is None else entry.embeddings()
        vectors = found or await call()
        if self._flight is not None:
            self._note(entry_of_vectors(vectors, self._record))
        return vectors

    async def task(self, plan: Plan, call: Callable[[], Awaitable[TaskAnswer]]) -> TaskAnswer:
        """A kept answer to a task, or what `call` returns."""
        entry = await self._find(plan)
        found = None if entry is None else entry.answer_to(self._request.task)
        answer = found or await call()
        if self._flight is not None:
            self._note(entry_of_task(answer, self._record))
        return answer

    async def kept(self, source: EventSource) -> EventSource:
        """Yield the same batches, and keep the answer when they end, unless they end early.

        source: over `events`.
        """
        try:
            async with aclosing(source):
                sink: EventSink | None = None
                while (batch := await _next(source, sink)) is not None:
                    sink = yield batch
            self.keep()
        finally:
            self.close()

    def keep(self) -> None:
        """The answer has passed all that may refuse it."""
        flight, data = self._flight, self._data
        if flight is None:
            return
        self._flight = None
        if data is None or self._flagged():
            flight.land("alone")
        elif self._unwritable:
            flight.land(data)
        else:
            flight.land(data, stays=True)
            self._cache.put(self._key, data, self._use.ttl_s, flight.leave)

    def close(self) -> None:
        """If the answer was not completed, another request takes over."""
        if self._flight is not None:
            self._flight.land("failed")
            self._flight = None

    async def _find(self, plan: Plan) -> Entry | None:
        """Return the kept answer; `None` if a backend has to be called. Raises DeadlineExceeded."""
        record = self._record
        aside = plan.mirror is not None or record.participation is not NO_PARTICIPATION
        aside = aside or self._use.bypass or self._flagged()
        key = None if aside else await self._key_of(plan)
        if key is None:
            self._say("bypass")
            return None
        self._key = key = f"{record.route}:{key}"  # see `model_of`
        data = None if self._use.oldest_s <= 0 else self._cache.memory.get(key)
        entry = None if data is None else self._usable(data)
        if entry is not None:
            return self._hit(entry)
        for _ in range(MOST_LEADERS):
            flight = self._cache.flights.of(key)
            if flight is None:
                self._flight = self._cache.flights.begin(key)
                if self._cache.remote is not None:
                    return await self._fetch(self._flight, self._cache.remote)
                break
            if self._use.oldest_s <= 0:
                break
            landing = await flight.landing(plan.ends(record.started, stream=record.stream) - now())
            if landing is None:
                raise DeadlineExceeded(PASSED)
            if landing == "failed":
                continue
            entry = None if landing == "alone" else self._usable(landing)
            if entry is not None:
                self._cache.counts.shared[record.route] += 1
                return self._hit(entry)
            break
        self._say("miss")
        return None

    async def _key_of(self, plan: Plan) -> str | None:
        record, rules = self._record, self._rules
        by_team = rules.config.share == "team" and record.team != ""
        place = KeyPlace(
            tenant=("", record.team, "") if by_team else (record.caller, record.team, record.user),
            surface=record.surface,
            route=record.route,
            fingerprint=rules.fingerprints[record.route],
            rule=plan.rule,
        )
        if self._offload is None:
            return cache_key(place, self._request)
        return await self._offload(partial(cache_key, place, self._request))

    async def _fetch(self, flight: Flight, remote: RemoteStore) -> Entry | None:
        """Look for an entry that is not in memory, while equal requests wait for this one."""
        outcome: Literal["miss", "bypass"] = "miss"
        if self._use.oldest_s > 0:
            try:
                data = await remote.get(self._key)
            except CacheUnavailable:
                outcome, self._unwritable = "bypass", True
            else:
                entry = None if data is None else self._usable(data)
                if data is not None and entry is not None:
                    self._flight = None
                    flight.land(data)
                    return self._hit(entry)
        self._say(outcome)
        return None

    def _usable(self, data: bytes) -> Entry | None:
        entry = decoded(data)
        return entry if entry is not None and entry.age_s <= self._use.oldest_s else None

    def _hit(self, entry: Entry) -> Entry:
        record = self._record
        record.backend = entry.backend
        record.dropped, record.defaulted = entry.dropped, entry.defaulted
        record.repaired = entry.repaired
        record.first_content_at = now()
        self._say("hit", entry)
        return entry

    def _say(self, outcome: Literal["hit", "miss", "bypass"], entry: Entry | None = None) -> None:
        record = self._record
        record.cache = CacheUse(outcome, None if entry is None else entry.counts)
        self._cache.counts.requests[record.route, outcome] += 1
        if self._headers is not None:
            self._headers.append(_SAYS[outcome])
            if entry is not None:
                self._headers.append((b"age", b"%d" % entry.age_s))

    def _note(self, data: bytes | None) -> None:
        if data is not None and len(data) <= self._rules.config.max_entry_bytes:
            self._data = data

    def _add(self, recording: Recording, batch: Sequence[Event]) -> None:
        recording.add(batch)
        if not recording.complete and self._flight is not None:
            self._flight.land("alone")
            self._flight = None

    def _add_and_pass(self, recording: Recording, sink: EventSink, batch: Sequence[Event]) -> bool:
        self._add(recording, batch)
        return sink(batch)


async def _next(source: EventSource, sink: EventSink | None) -> list[Event] | None:
    """Return the next batch, `None` at the end."""
    try:
        return await source.asend(sink)
    except StopAsyncIteration:
        return None
