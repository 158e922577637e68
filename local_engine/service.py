"""The engine's asyncio face: requests in, batches of events out, one batch a step.

What happens between the two threads is one call a step (`_route`); what a request's client must
not notice of others is kept here too: a request that ends, fails or is abandoned takes its own
sequences with it and nothing else.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from itertools import count

import msgspec
import torch
from msgspec import Struct
from torch import Tensor

from local_engine.answer import Answer
from local_engine.conditions import Conditions
from local_engine.config import EngineConfig
from local_engine.draw import Drawn
from local_engine.embedders import host_embedders
from local_engine.engine import Engine
from local_engine.grammar import Grammar
from local_engine.history import new_history
from local_engine.hosting import Hosted, Hosting, host
from local_engine.inbox import Inbox
from local_engine.jobs import Delta, Job
from local_engine.machine import as_of_now, machine
from local_engine.noise import derive_seed
from local_engine.orders import Order
from local_engine.sequence import new_sequence
from local_engine.stats import Machine, Stats
from local_engine.vectors import EmbeddingService, Vectors
from local_engine.watchdog import Pulse
from local_engine.wire_tensors import packed
from schemas.errors import (
    DeadlineExceeded,
    InvalidRequest,
    ModelNotFound,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamLost,
)
from schemas.events import Event, Logits, Started, Usage
from schemas.messages import text_of
from schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
)

NAME = "local engine"
"""How the engine calls itself in errors; a gateway puts the provider's name there."""

INLINE = 4096
"""Characters that are rendered and encoded on the event loop; more go to a side thread."""


class Choice(Struct, frozen=True, kw_only=True, eq=False):
    """One answer in progress.

    held: its events, where only the best of several are shown. rows: its logits so far.
    """

    prompt: int
    answer: Answer
    held: list[Event]
    rows: list[Tensor]


class Service:
    """Hosts the configured models. Build it (this loads them), `start` it on a loop, `stop` it."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        report: Callable[[str], None] = lambda _: None,
        hosting: Hosting = host,
    ) -> None:
        """hosting: loads the models. Raises InvalidConfig for one that cannot be served."""
        self.pulse = Pulse()
        self._machine = machine(config)
        self._embedders = host_embedders(config, report)
        self._models = hosting(config, report)
        self._ids = count(1)
        self._embeddings = EmbeddingService(self._embedders, self._ids, NAME)
        self._engine = Engine(
            {hosted.base: hosted.lane for hosted in self._models.values()},
            self._deliver,
            self._ended,
            pulse=self.pulse,
            embedders={name: embedder.lane for name, embedder in self._embedders.items()},
            embedded=self._embeddings.deliver,
        )
        self._most = config.max_sequences + config.max_waiting
        self._inboxes: dict[int, Inbox] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()

    @property
    def models(self) -> tuple[str, ...]:
        return (*self._models, *self._embedders)

    @property
    def alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._engine.alive

    def stats(self) -> dict[str, Stats]:
        """By model; what runs with an adapter counts as its base's."""
        lanes = {hosted.base: hosted.lane for hosted in self._models.values()}
        embedders = {name: embedder.lane for name, embedder in self._embedders.items()}
        return {name: lane.stats() for name, lane in {**lanes, **embedders}.items()}

    def machine(self) -> Machine:
        """What the process runs on."""
        return as_of_now(self._machine)

    def start(self) -> None:
        """Starts the thread; call it on the loop that will call `generate`."""
        self._loop = asyncio.get_running_loop()
        self._embeddings.start(self._engine)
        self._engine.start()

    async def stop(self) -> None:
        """Fails what is unfinished and waits for the thread."""
        await asyncio.to_thread(self._engine.stop)

    async def ended(self) -> None:
        """Returns when the thread has ended, be it by `stop` or by a bug."""
        await self._over.wait()

    async def generate(
        self, request: GenerateRequest, *, model: str, request_id: str = "", tenant: str = ""
    ) -> AsyncGenerator[list[Event], None]:
        """Batches of events. Closing the generator early frees its sequences within one step.

        tenant: whose prefix-cache entries may be reused. request_id: the answer's id.
        Raises ModelNotFound, InvalidRequest and UpstreamBusy before the first batch,
        DeadlineExceeded and UpstreamFailed at any time.
        """
        assert self._loop is not None, "the service was not started"
        hosted = self._models.get(model)
        if hosted is None:
            raise self._cannot(model, "generates no text; ask it for embeddings")
        if _characters(request) > INLINE:
            order = await asyncio.to_thread(hosted.reader.read, request)
        else:
            order = hosted.reader.read(request)
        grammar = None
        if order.guide is not None:
            grammar = await hosted.guides.compile(
                order.guide, order.ends | order.stops, tenant
            )
        for prompt in order.prompts:
            hosted.lane.refuse(len(prompt))
            if order.beams is not None:
                hosted.lane.refuse_beams(len(prompt), order.beams.width, order.max_new)
        if len(self._inboxes) + len(order.prompts) * order.choices > self._most:
            raise UpstreamBusy("too many answers are waiting", upstream=NAME, retry_after=1.0)
        conditions = await hosted.conditioner.settle(request, tenant)
        run = _Run(hosted, order, grammar, Inbox(self._loop), self._engine, conditions)
        jobs = run.prepare(self._ids, tenant.encode())
        ids = list(run.live)
        for id in ids:
            self._inboxes[id] = run.inbox
        for job in jobs:
            self._engine.submit(job)
        try:
            yield [Started(id=request_id, model=model, created=int(time.time())), *run.begin()]
            while run.live:
                deltas = await run.inbox.take()
                if batch := run.absorb(deltas):
                    yield batch
        finally:
            for id in ids:
                del self._inboxes[id]
            for id in run.live:
                self._engine.cancel(id)
            hosted.conditioner.release(conditions)

    async def embed(self, request: EmbeddingsRequest, *, model: str) -> Vectors:
        """All vectors at once. Cancelling the task frees what is left of its inputs.

        Raises as `generate` does.
        """
        if model not in self._embedders:
            raise self._cannot(model, "does not embed; ask it for text")
        return await self._embeddings.embed(request, model=model)

    def _cannot(self, model: str, what: str) -> InvalidRequest | ModelNotFound:
        if model in self.models:
            return InvalidRequest(f"the model {model!r} {what}", param="model")
        return ModelNotFound(f"the engine has no model {model!r}; it has {', '.join(self.models)}")

    def _deliver(self, deltas: list[Delta]) -> None:
        """Called by the engine's thread."""
        if deltas and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._route, deltas, time.monotonic())

    def _ended(self) -> None:
        """Called by the engine's thread, as its last act."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)

    def _route(self, deltas: list[Delta], at: float) -> None:
        for delta in deltas:
            inbox = self._inboxes.get(delta.id)
            if inbox is not None:
                inbox.put(delta, at)


class _Run:
    """One request's sequences and answers."""

    def __init__(
        self,
        hosted: Hosted,
        order: Order,
        grammar: Grammar | None,
        inbox: Inbox,
        engine: Engine,
        conditions: Conditions,
    ) -> None:
        self._hosted = hosted
        self._conditions = conditions
        self._order = order
        self._grammar = grammar
        self._engine = engine
        self.inbox = inbox
        self.live: dict[int, Choice] = {}
        self._choices: list[Choice] = []
        self._cached: dict[int, int] = {}
        self._scored: dict[int, tuple[Drawn, ...]] = {}
        self._selects = order.choices > order.shown
        self._began = 0.0

    def prepare(self, ids: "count[int]", salt: bytes) -> list[Job]:
        """A job a prompt; its other choices are siblings, which share the prompt's pages.

        Choice i draws with the i-th derived seed.
        """
        now = self._began = time.monotonic()
        jobs: list[Job] = []
        for place in range(len(self._order.prompts)):
            lead, *others = [
                self._job(next(ids), place, number, now, salt)
                for number in range(self._order.choices)
            ]
            jobs.append(msgspec.structs.replace(lead, siblings=tuple(others)))
        return jobs

    def _job(self, id: int, place: int, number: int, now: float, salt: bytes) -> Job:
        order = self._order
        prompt = order.prompts[place]
        seed = derive_seed(order.params.seed, number)
        params = msgspec.structs.replace(order.params, seed=seed)
        answer = Answer(
            order,
            place * order.shown + number,
            place,
            seed=seed,
            tokenizer=self._hosted.tokenizer,
            names=self._hosted.names,
        )
        choice = self.live[id] = Choice(prompt=place, answer=answer, held=[], rows=[])
        self._choices.append(choice)
        return Job(
            lane=self._hosted.base,
            sequence=new_sequence(
                id=id,
                prompt=list(prompt),
                max_total=len(prompt) + order.max_new,
                priority=order.priority,
                arrival=now,
                deadline=now + order.timeout_s if order.timeout_s is not None else float("inf"),
                salt=self._conditions.salt(salt),
                adapter=self._conditions.adapter,
                table=self._conditions.table,
                drafts=list(order.draft) if number == 0 else [],
                fresh=order.context or order.prompt_logprobs,
            ),
            params=params,
            history=new_history(params, prompt, len(prompt), vocabulary=self._hosted.vocabulary),
            ends=order.ends,
            stops=order.stops,
            words=order.words,
            beams=order.beams,
            grammar=None if self._grammar is None else self._grammar.fork(),
            proposal=order.proposal,
            context=order.context,
            generation=order.generation,
            prompt_logprobs=order.prompt_logprobs,
        )

    def begin(self) -> list[Event]:
        batch: list[Event] = []
        for choice in self._choices:
            events = choice.answer.begin(self._began, self._order.echoes[choice.prompt])
            (choice.held if self._selects else batch).extend(events)
        return batch

    def absorb(self, deltas: list[tuple[float, Delta]]) -> list[Event]:
        """The events that some deltas make, by the times at which they came.

        Raises what ends the whole request.
        """
        batch: list[Event] = []
        for at, delta in deltas:
            choice = self.live.get(delta.id)
            if choice is None:
                continue
            events = self._tensors(choice, delta)
            events += self._events(choice, delta, at)
            self._cached.setdefault(choice.prompt, delta.cached)
            if choice.answer.ended:
                del self.live[delta.id]
                if delta.outcome is None:
                    self._engine.cancel(delta.id)
            (choice.held if self._selects else batch).extend(events)
        if self._selects and not self.live:
            batch = self._best()
        batch.append(self._usage())
        return batch

    def _tensors(self, choice: Choice, delta: Delta) -> list[Event]:
        """The prompt's log probabilities and logits with the first delta, generated logits with
        the last."""
        events: list[Event] = []
        if delta.prompt:
            self._scored[choice.prompt] = delta.prompt
        if self._order.prompt_logprobs and choice.answer.count == 0:
            echo = self._order.echoes[choice.prompt]
            first = self._order.prompts[choice.prompt][0]
            events += choice.answer.echo(echo, first, self._scored[choice.prompt])
        if delta.context is not None:
            events.append(Logits(of="context", tensor=packed(delta.context)))
        if delta.logits is not None:
            choice.rows.append(delta.logits)
            if delta.outcome is not None:
                rows = packed(torch.cat(choice.rows))
                events.append(Logits(of="generation", tensor=rows, index=choice.answer.index))
        return events

    def _events(self, choice: Choice, delta: Delta, now: float) -> list[Event]:
        match delta.outcome:
            case "failed" if delta.field:
                raise InvalidRequest(f"{delta.field}: {delta.reason}", param=delta.field)
            case "failed":
                kind = UpstreamLost if delta.lost else UpstreamFailed
                raise kind(delta.reason, upstream=NAME)
            case "expired":
                if self._order.truncate:
                    return choice.answer.expire(now)
                raise DeadlineExceeded(
                    f"the answer was not complete within {self._order.timeout_s} s (timeout)",
                    param="timeout",
                )
            case _:
                return choice.answer.feed(delta, now)

    def _best(self) -> list[Event]:
        """Of each prompt's answers those with the best score, renumbered."""
        events: list[Event] = []
        for place in range(len(self._order.prompts)):
            rivals = [choice for choice in self._choices if choice.prompt == place]
            rivals.sort(key=lambda choice: choice.answer.score, reverse=True)
            for rank, choice in enumerate(rivals[: self._order.shown]):
                index = place * self._order.shown + rank
                events += [msgspec.structs.replace(event, index=index) for event in choice.held]
        return events

    def _usage(self) -> Usage:
        """Totals so far; every choice's tokens count, shown or not."""
        prompt = sum(len(prompt) for prompt in self._order.prompts)
        completion = sum(choice.answer.count for choice in self._choices)
        form = self._order.form
        reasons = form is not None and form.thinking is not None
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            cached_tokens=sum(self._cached.values()),
            reasoning_tokens=sum(c.answer.reasoned for c in self._choices) if reasons else None,
        )


def _characters(request: GenerateRequest) -> int:
    match request:
        case ChatRequest():
            return sum(len(text_of(message)) for message in request.messages)
        case CompletionRequest():
            return sum(len(prompt) for prompt in request.prompts)
        case _:
            return 0
