"""Asyncio interface of the engine: requests in, batches of events out, one batch per step.

The engine's thread makes one call per step to the event loop (`_route`). Requests are isolated
here: a request that ends, fails or is cancelled frees its own sequences and no others.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from itertools import count

from msgspec.structs import replace

from strowger_gateway.local_engine.child_process.text_encoder import INLINE, reading_gate
from strowger_gateway.local_engine.config import EngineConfig
from strowger_gateway.local_engine.execution.engine_loop import Engine
from strowger_gateway.local_engine.execution.jobs import Delta, Job
from strowger_gateway.local_engine.execution.watchdog import Pulse
from strowger_gateway.local_engine.protocol.frames import Phases, Ready
from strowger_gateway.local_engine.protocol.identity import weights_of
from strowger_gateway.local_engine.protocol.stats import Machine, Stats
from strowger_gateway.local_engine.requests.preparation import preparing, read
from strowger_gateway.local_engine.requests.request_limits import (
    characters,
    refuse_excess,
    refuse_unfit,
)
from strowger_gateway.local_engine.requests.request_reader import PreparedRequest, RequestReader
from strowger_gateway.local_engine.server.delta_queue import DeltaQueue
from strowger_gateway.local_engine.server.embedding_host import host_embedders
from strowger_gateway.local_engine.server.embedding_service import EmbeddingResult, EmbeddingService
from strowger_gateway.local_engine.server.host_info import as_of_now, machine, release
from strowger_gateway.local_engine.server.model_host import Hosting, ServedModel, host
from strowger_gateway.local_engine.server.queue_places import QueuePlaces
from strowger_gateway.local_engine.server.request_run import NAME, RequestRun
from strowger_gateway.local_engine.server.resumption import check_resumable
from strowger_gateway.local_engine.text.text_length import Reach
from strowger_gateway.schemas.errors import InvalidRequest, ModelNotFound
from strowger_gateway.schemas.events import Event, Started
from strowger_gateway.schemas.holdings import Holder
from strowger_gateway.schemas.requests import (
    EmbeddingsRequest,
    GenerateRequest,
)


class Service:
    """Serves the configured models. Creating it loads them; `start` it on a loop, then `stop`."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        report: Callable[[str], None] = lambda _: None,
        hosting: Hosting = host,
    ) -> None:
        """hosting: loads the models. Raises InvalidConfig for a model that cannot be served."""
        self.pulse = Pulse()
        self._machine = machine(config)
        self._config = config
        self._embedders = host_embedders(config, report)
        self._models = hosting(config, report)
        self._ids = count(1)
        self._reading = reading_gate(NAME)
        self._embeddings = EmbeddingService(self._embedders, self._ids, NAME, self._reading)
        self._engine = Engine(
            {served.base: served.lane for served in self._models.values()},
            self._deliver,
            self._ended,
            pulse=self.pulse,
            embedders={name: embedder.lane for name, embedder in self._embedders.items()},
            embedded=self._embeddings.deliver,
        )
        self._places = QueuePlaces(config.max_sequences + config.max_waiting, "answers", NAME)
        self._queues: dict[int, DeltaQueue] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()

    @property
    def models(self) -> tuple[str, ...]:
        return (*self._models, *self._embedders)

    @property
    def reaches(self) -> dict[str, Reach]:
        """The longest prompt of each model."""
        readers = {name: one.reader for name, one in self._models.items()}
        texts = {name: one.reader for name, one in self._embedders.items()}
        return {name: reader.reach for name, reader in {**readers, **texts}.items()}

    def hello(self) -> Ready:
        """Return the first frame of a connection."""
        resolved = replace(self._config, device=self._machine.device, dtype=self._machine.dtype)
        return Ready(
            models=self.models,
            reaches=self.reaches,
            weights=dict(weights_of(resolved)),
            release=release(),
        )

    @property
    def alive(self) -> bool:
        """True if the engine's thread runs."""
        return self._engine.alive

    def stats(self) -> dict[str, Stats]:
        """Return the statistics by model; requests with an adapter count for its base model."""
        lanes = {served.base: served.lane for served in self._models.values()}
        embedders = {name: embedder.lane for name, embedder in self._embedders.items()}
        return {name: lane.stats() for name, lane in {**lanes, **embedders}.items()}

    def machine(self) -> Machine:
        """Return the device and memory of the process."""
        return as_of_now(self._machine)

    def start(self) -> None:
        """Start the thread; call it on the loop that will call `generate`."""
        self._loop = asyncio.get_running_loop()
        self._embeddings.start(self._engine)
        self._engine.start()

    async def stop(self) -> None:
        """Fail unfinished requests and wait for the thread."""
        await asyncio.to_thread(self._engine.stop)

    async def ended(self) -> None:
        """Return when the thread has ended, by `stop` or because of a bug."""
        await self._over.wait()

    async def generate(
        self,
        request: GenerateRequest,
        *,
        model: str,
        request_id: str = "",
        tenant: str = "",
        team: str = "",
        drawn: list[int] | None = None,
        on_phases: Callable[[Phases | None], None] | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """Yield batches of events. Closing the generator early frees its sequences within one step.

        tenant: the API key; may reuse its own prefix-cache entries only, and takes turns with
        others, as its team does with other teams. request_id: the answer's id.
        drawn: the tokens that the answer has already; the events are those after them. The tokens
        of each batch are appended. `None`: the answer is never resumed.
        on_phases: called after the last batch of a complete answer.
        Raises ModelNotFound, InvalidRequest, Throttled and UpstreamBusy before the first batch,
        DeadlineExceeded and UpstreamFailed at any time.
        """
        assert self._loop is not None, "the service was not started"
        served = self._models.get(model)
        if served is None:
            raise self._cannot(model, "does not generate text; use it for embeddings")
        holder = Holder(tenant, team)
        with preparing():
            run, jobs = await self._prepare(served, request, holder, drawn)
        ids = list(run.live)
        for id in ids:
            self._queues[id] = run.queue
        for job in jobs:
            self._engine.submit(job)
        try:
            yield [Started(id=request_id, model=model, created=int(time.time())), *run.begin()]
            while run.live:
                deltas = await run.queue.take()
                if batch := run.absorb(deltas):
                    yield batch
            if on_phases is not None:
                on_phases(run.phases)
        finally:
            for id in ids:
                del self._queues[id]
            for id in run.live:
                self._engine.cancel(id)
            self._places.give_back(holder, len(ids))
            served.adapter_resolver.release(run.adapters)

    async def _prepare(
        self,
        served: ServedModel,
        request: GenerateRequest,
        holder: Holder,
        drawn: list[int] | None,
    ) -> tuple[RequestRun, list[Job]]:
        """Validate the request and create its jobs, which hold their places in the queue."""
        assert self._loop is not None
        prepared = await self._read(served.reader, request, holder)
        replayed = check_resumable(prepared, drawn)
        grammar = None
        if prepared.guide is not None:
            grammar = await served.guides.compile(
                prepared.guide, prepared.ends | prepared.stops, holder
            )
        for prompt in prepared.prompts:
            served.lane.validate_prompt_length(len(prompt) + replayed)
            if prepared.beams is not None:
                served.lane.validate_beams(len(prompt), prepared.beams.width, prepared.drawn)
        answers = len(prepared.prompts) * prepared.choices
        if answers > self._places.total:
            raise InvalidRequest(
                f"n: {answers} answers exceed this engine's limit of {self._places.total}; "
                "request fewer answers or send fewer prompts",
                param="n",
            )
        self._places.hold(holder, answers)
        try:
            adapters = await served.adapter_resolver.resolve(request, holder, self._reading)
            queue = DeltaQueue(self._loop)
            run = RequestRun(served, prepared, grammar, queue, self._engine, adapters, drawn)
            return run, run.prepare(self._ids, holder)
        except BaseException:
            self._places.give_back(holder, answers)
            raise

    async def _read(
        self, reader: RequestReader, request: GenerateRequest, holder: Holder
    ) -> PreparedRequest:
        size = characters(request)
        if size > INLINE:
            refuse_excess(request)
            refuse_unfit(request, reader.reach)
        return await read(
            partial(reader.read, request), size=size, gate=self._reading, holder=holder
        )

    async def embed(
        self, request: EmbeddingsRequest, *, model: str, tenant: str = "", team: str = ""
    ) -> EmbeddingResult:
        """Return all vectors at once. Cancelling the task frees its remaining inputs.

        Raises as `generate` does.
        """
        if model not in self._embedders:
            raise self._cannot(model, "does not embed; use it for text generation")
        return await self._embeddings.embed(request, model=model, holder=Holder(tenant, team))

    def _cannot(self, model: str, what: str) -> InvalidRequest | ModelNotFound:
        if model in self.models:
            return InvalidRequest(f"the model {model!r} {what}", param="model")
        return ModelNotFound(f"the engine has no model {model!r}; it has {', '.join(self.models)}")

    def _deliver(self, deltas: list[Delta]) -> None:
        """Called by the engine's thread."""
        if deltas and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._route, deltas, time.monotonic())

    def _ended(self) -> None:
        """Called by the engine's thread before it ends."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)

    def _route(self, deltas: list[Delta], at: float) -> None:
        for delta in deltas:
            queue = self._queues.get(delta.id)
            if queue is not None:
                queue.put(delta, at)
