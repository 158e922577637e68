"""Call an engine of this or another machine: one connection per worker for all its requests."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from types import MappingProxyType

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.engines.link.faults import Fault
from strowger_gateway.gateway.backends.engines.link.places import EnginePlace
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.engine_link import EngineLink
from strowger_gateway.gateway.backends.upstream.local_capabilities import LOCAL_SUPPORTS
from strowger_gateway.gateway.backends.upstream.local_count import CountsByReading
from strowger_gateway.gateway.backends.upstream.local_embeddings import to_embeddings
from strowger_gateway.gateway.backends.upstream.patience import (
    REASONING,
    USUAL,
    patience_of,
    total_of,
)
from strowger_gateway.gateway.config.schema.connection import Timeouts
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.gateway.platform.trace_context import EngineSpan
from strowger_gateway.local_engine.protocol.frames import Batch, StatsReply, Vectors
from strowger_gateway.local_engine.protocol.stats import Stats
from strowger_gateway.local_engine.requests.request_limits import refuse_excess, refuse_unfit
from strowger_gateway.local_engine.text.text_length import Reach
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import (
    UpstreamBroken,
    UpstreamSilent,
    UpstreamStarting,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import CONTENT, Event, Usage
from strowger_gateway.schemas.requests import EmbeddingsRequest, GenerateRequest

BACKOFF_S = 0.02
"""Seconds between the first attempts to connect; a request in between fails immediately."""

_TIMEOUTS = Timeouts()


class LocalUpstream(CountsByReading):
    """Connects on the first request, and again after the connection is lost."""

    def __init__(
        self,
        name: str,
        place: EnginePlace,
        timeouts: Timeouts = _TIMEOUTS,
        status: Callable[[], str] = lambda: "not running",
        ready_in: Callable[[], float | None] = lambda: None,
        state: Callable[[], str] = lambda: "",
        weights: Mapping[str, str] = MappingProxyType({}),
        reported: dict[str, str] | None = None,
    ) -> None:
        """timeouts: as for a remote provider; the engine streams every answer to the gateway.

        status: what the engine does while it does not respond; for the log, because it may
        contain files and addresses. ready_in: seconds until it should respond again.
        state: `status` in one word, for clients. weights: by model, see ResumesAnswers.
        reported: weights that engines of the provider report, if the gateway does not know them.
        """
        self.name, self.timeouts = name, timeouts
        self._whole_s, self._stream_s = total_of(timeouts)
        self._patience = patience_of(timeouts, USUAL), patience_of(timeouts, REASONING)
        self.place = place
        self._status, self._state, self._ready_in = status, state, ready_in
        self._weights = weights
        self._reported = {} if reported is None else reported
        self._fault: Fault | None = None
        self._link: EngineLink | None = None
        self._connecting: asyncio.Lock = asyncio.Lock()
        self._failures, self._retry_at, self.reaches = 0, 0.0, dict[str, Reach]()

    @property
    def supports(self) -> Supports:
        return LOCAL_SUPPORTS

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        """See Upstream.generate. Closing it early frees the engine's sequences within a step.

        Raises UpstreamStarting if no engine listens, UpstreamLost if its connection is lost,
        UpstreamTimeout past a timeout or the call's deadline, and the engine's own errors.
        """
        started, limits = now(), self.timeouts
        over = min(started + self._stream_s, call.deadline)
        link = await self._connected(min(started + limits.connect_s, over))
        if (reach := link.hello.reaches.get(call.model)) is not None:
            refuse_excess(request)
            refuse_unfit(request, reach)
        drawn = call.drawn
        if drawn is not None:
            request = drawn.begin(request, self.weights_of(call.model))
        pending = link.submit(request, call)
        call.sending.unread = False
        patience = self._patience[call.reasons]
        by, begun = min(started + patience.begin_s, over), False
        between_s = min(patience.between_s, patience.later_silence_s)
        try:
            while True:
                batches = await pending.take(by)
                if not batches:
                    raise self._late(by < over, begun)
                for batch in batches:
                    if drawn is not None:
                        drawn.ids += batch.drawn
                    if batch.events:
                        yield list(batch.events)
                        begun = begun or _shows_progress(batch)
                    if batch.last:
                        if call.trace is not None and (phases := batch.phases) is not None:
                            call.trace.engine = EngineSpan(
                                phases.queue_s, phases.prefill_s, phases.decode_s, now()
                            )
                        return
                if begun:
                    by = min(now() + between_s, over)
        finally:
            link.forget(pending)

    def weights_of(self, model: str) -> str:
        """See ResumesAnswers."""
        known = self._weights.get(model)
        if known is None and self._link is not None:
            known = self._link.hello.weights.get(model)
        return self._reported.get(model, "") if known is None else known

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        """Raises as `generate` does. Cancelling it drops the remaining inputs."""
        started, limits = now(), self.timeouts
        over = min(started + self._whole_s, call.deadline)
        link = await self._connected(min(started + limits.connect_s, over))
        if (reach := link.hello.reaches.get(call.model)) is not None:
            refuse_unfit(request, reach)
        pending = link.embed(request, call)
        call.sending.unread = False
        pieces: list[Vectors] = []
        try:
            while not pieces or not pieces[-1].last:
                more = await pending.take(over)
                if not more:
                    raise self._late(False, False)
                pieces += more
        finally:
            link.forget(pending)
        return to_embeddings(pieces, call, base64=request.base64)

    async def stats(self) -> dict[str, Stats]:
        """Return the engine's statistics by model. Raises as `generate` does."""
        return (await self.measured()).stats

    async def measured(self) -> StatsReply:
        """Return the engine's report on itself. Raises as `generate` does."""
        link = await self._connected(now() + self.timeouts.connect_s)
        return await link.measured()

    async def aclose(self) -> None:
        if self._link is not None:
            self._link.close()

    @property
    def connected(self) -> bool:
        """Whether requests can be sent without connecting first."""
        return self._link is not None and self._link.alive

    @property
    def trouble(self) -> str:
        """Why the last attempt to connect failed; "" if it did not."""
        return "" if self._fault is None else self._fault.detail

    def on_engine_ready(self) -> None:
        """The engine reports that it is ready: the next request connects without a backoff."""
        self._failures, self._retry_at = 0, 0.0

    async def _connected(self, by: float) -> EngineLink:
        """Return the live link. One task connects; the others wait and share its result."""
        if self._link is not None and self._link.alive:
            return self._link
        await in_task()
        try:
            async with asyncio.timeout_at(by):
                await self._connecting.acquire()
            try:
                if self._link is None or not self._link.alive:
                    self._link = await self._connect(by)
                return self._link
            finally:
                self._connecting.release()
        except TimeoutError as exc:
            late = "no connection in time (timeouts.connect_s)"
            detail = f"{late}: {self.trouble or self._status()}"
            raise UpstreamTimeout(late, upstream=self.name, detail=detail) from exc

    async def _connect(self, by: float) -> EngineLink:
        """Raises UpstreamStarting, and TimeoutError at `by`. Leaves nothing open on failure."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._retry_at:
            raise self._starting()
        link = EngineLink(self.name)
        scope = asyncio.timeout_at(by)
        try:
            async with scope:
                await self.place.open(lambda: link)
                await link.ready
        except (OSError, UpstreamBroken) as exc:
            link.give_up()
            self._failures += 1
            pause = BACKOFF_S * 2.0 ** min(self._failures - 1, 20)
            self._retry_at = loop.time() + min(pause, self.place.longest_pause_s)
            self._fault = self.place.fault(
                exc if isinstance(exc, OSError) else link.error, link.fault
            )
            if isinstance(exc, TimeoutError) and scope.expired():
                raise
            raise self._starting() from exc
        except asyncio.CancelledError:
            link.give_up()
            raise
        self._failures, self.reaches, self._fault = 0, link.hello.reaches, None
        self._reported.update(link.hello.weights)
        return link

    def _late(self, early: bool, begun: bool) -> UpstreamTimeout:
        """early: before the total timeout of the answer."""
        if not early:
            problem = "the engine's answer was not complete in time (timeouts.total_s)"
        elif begun:
            problem = "the engine's answer stalled (timeouts.between_tokens_s, silence_s)"
        else:
            problem = "the engine's first token is late (timeouts.first_token_s, silence_s)"
        return UpstreamSilent(problem, upstream=self.name)

    def _starting(self) -> UpstreamStarting:
        message, state, status = "the engine does not respond", self._state(), self._status()
        if self._fault is not None:
            state, status = self._fault.state, self._fault.detail
        return UpstreamStarting(
            f"{message}: {state}" if state else message,
            upstream=self.name,
            retry_after=self._ready_in(),
            detail=f"{message}: {status}",
        )


def _shows_progress(batch: Batch) -> bool:
    """Return whether the model generates, even if the text is withheld (best_of)."""
    return any(
        isinstance(event, CONTENT) or (isinstance(event, Usage) and bool(event.completion_tokens))
        for event in batch.events
    )
