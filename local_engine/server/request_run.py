"""Run one request: create its jobs and turn their deltas into the client's events."""

import time
from itertools import count

import msgspec
import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.execution.engine_loop import Engine
from strowger_gateway.local_engine.execution.jobs import Delta, Job
from strowger_gateway.local_engine.execution.step_sampler import SampledToken
from strowger_gateway.local_engine.guided.grammar import Grammar
from strowger_gateway.local_engine.protocol.frames import Phases
from strowger_gateway.local_engine.protocol.tensors import packed
from strowger_gateway.local_engine.requests.answer_stream import AnswerStream
from strowger_gateway.local_engine.requests.request_reader import PreparedRequest
from strowger_gateway.local_engine.sampling.counter_rng import derive_seed
from strowger_gateway.local_engine.sampling.token_history import new_history
from strowger_gateway.local_engine.scheduling.request_metrics import Timing
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.local_engine.server.delta_queue import DeltaQueue
from strowger_gateway.local_engine.server.model_host import ServedModel
from strowger_gateway.local_engine.server.request_adapters import RequestAdapters
from strowger_gateway.local_engine.server.resumption import replay
from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    InvalidRequest,
    UpstreamFailed,
    UpstreamLost,
)
from strowger_gateway.schemas.events import Event, Logits, Usage
from strowger_gateway.schemas.holdings import Holder

NAME = "local engine"
"""The engine's name in errors; the gateway replaces it with the provider's name."""


class Choice(Struct, frozen=True, kw_only=True, eq=False):
    """One answer in progress.

    held: its events, if only the best of several are shown. rows: its logits so far.
    """

    prompt: int
    answer: AnswerStream
    held: list[Event]
    rows: list[Tensor]


class RequestRun:
    """One request's sequences and answers."""

    def __init__(
        self,
        model: ServedModel,
        request: PreparedRequest,
        grammar: Grammar | None,
        queue: DeltaQueue,
        engine: Engine,
        adapters: RequestAdapters,
        drawn: list[int] | None = None,
    ) -> None:
        """drawn: see Service.generate."""
        self._model = model
        self._drawn = drawn
        self._replayed = self._reasoned = 0
        self.adapters = adapters
        self._request = request
        self._grammar = grammar
        self._engine = engine
        self.queue = queue
        self.live: dict[int, Choice] = {}
        self._choices: list[Choice] = []
        self._cached: dict[int, int] = {}
        self._scored: dict[int, tuple[SampledToken, ...]] = {}
        self._selects = request.choices > request.shown
        self._began = 0.0
        self._timings: list[Timing] = []

    def prepare(self, ids: "count[int]", holder: Holder) -> list[Job]:
        """Create one job per prompt; its other choices are siblings that share its pages.

        Choice i samples with the i-th derived seed.
        """
        now = self._began = time.monotonic()
        jobs: list[Job] = []
        for place in range(len(self._request.prompts)):
            lead, *others = [
                self._job(next(ids), place, number, now, holder)
                for number in range(self._request.choices)
            ]
            jobs.append(msgspec.structs.replace(lead, siblings=tuple(others)))
        return jobs

    def _job(self, id: int, place: int, number: int, now: float, holder: Holder) -> Job:
        request = self._request
        prompt = request.prompts[place]
        seed = derive_seed(request.params.seed, number)
        params = msgspec.structs.replace(request.params, seed=seed)
        answer = AnswerStream(
            request,
            place * request.shown + number,
            place,
            seed=seed,
            tokenizer=self._model.tokenizer,
            names=self._model.names,
        )
        choice = self.live[id] = Choice(prompt=place, answer=answer, held=[], rows=[])
        self._choices.append(choice)
        job = Job(
            lane=self._model.base,
            sequence=new_sequence(
                id=id,
                prompt=list(prompt),
                max_total=len(prompt) + request.drawn,
                priority=request.priority,
                arrival=now,
                deadline=now + request.timeout_s if request.timeout_s is not None else float("inf"),
                holder=holder,
                salt=self.adapters.salt(holder.key.encode()),
                adapter=self.adapters.adapter,
                table=self.adapters.table,
                drafts=list(request.draft) if number == 0 else [],
                fresh=request.context or request.prompt_logprobs,
            ),
            params=params,
            history=new_history(params, prompt, len(prompt), vocabulary=self._model.vocabulary),
            ends=request.ends,
            stops=request.stops,
            words=request.words,
            beams=request.beams,
            grammar=None if self._grammar is None else self._grammar.fork(),
            proposal=request.proposal,
            context=request.context,
            generation=request.generation,
            prompt_logprobs=request.prompt_logprobs,
        )
        if not self._drawn:
            return job
        answer.replay(self._drawn)
        self._replayed, self._reasoned = len(self._drawn), answer.reasoned
        return replay(job, self._drawn, self._model.vocabulary)

    def begin(self) -> list[Event]:
        batch: list[Event] = []
        for choice in self._choices:
            events = choice.answer.begin(self._began, self._request.echoes[choice.prompt])
            (choice.held if self._selects else batch).extend(events)
        return batch

    def absorb(self, deltas: list[tuple[float, Delta]]) -> list[Event]:
        """Return the events of some deltas, which are given with the times at which they arrived.

        The counts follow the events of each step, also where several steps arrive at once.

        Raises the error that ends the whole request.
        """
        batch: list[Event] = []
        step: set[int] = set()
        for at, delta in deltas:
            choice = self.live.get(delta.id)
            if choice is None:
                continue
            if delta.id in step:
                batch.append(self._usage())
                step.clear()
            step.add(delta.id)
            if self._drawn is not None:
                self._drawn += [one.token for one in delta.drawn]
            if delta.timing is not None:
                self._timings.append(delta.timing)
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
        """Return the prompt's log probabilities and logits with the first delta, generated logits
        with the last."""
        events: list[Event] = []
        if delta.prompt:
            self._scored[choice.prompt] = delta.prompt
        if self._request.prompt_logprobs and choice.answer.count == 0:
            echo = self._request.echoes[choice.prompt]
            events += choice.answer.echo(echo, self._scored[choice.prompt])
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
                if self._request.truncate:
                    return choice.answer.expire(now)
                raise DeadlineExceeded(
                    f"the answer was not complete within {self._request.timeout_s} s (timeout)",
                    param="timeout",
                )
            case _:
                return choice.answer.feed(delta, now)

    def _best(self) -> list[Event]:
        """Return the events of each prompt's best answers by score, renumbered."""
        events: list[Event] = []
        for place in range(len(self._request.prompts)):
            rivals = [choice for choice in self._choices if choice.prompt == place]
            rivals.sort(key=lambda choice: choice.answer.score, reverse=True)
            for rank, choice in enumerate(rivals[: self._request.shown]):
                index = place * self._request.shown + rank
                events += [msgspec.structs.replace(event, index=index) for event in choice.held]
        return events

    @property
    def phases(self) -> Phases | None:
        """The durations of the answer, once it is complete; `None` if it has no token."""
        timings = self._timings
        if not timings:
            return None
        arrived = min(one.arrival_time_ns for one in timings)
        scheduled = min(one.first_scheduled_time_ns for one in timings)
        first = min(one.first_token_time_ns for one in timings)
        last = max(one.last_token_time_ns for one in timings)
        return Phases(
            queue_s=max(scheduled - arrived, 0) / 1e9,
            prefill_s=max(first - scheduled, 0) / 1e9,
            decode_s=max(last - first, 0) / 1e9,
        )

    def _usage(self) -> Usage:
        """Return the totals so far; tokens of every choice count, shown or not.

        Tokens that were replayed are read, not drawn.
        """
        prompt = sum(len(prompt) for prompt in self._request.prompts) + self._replayed
        completion = sum(choice.answer.count for choice in self._choices) - self._replayed
        output_format = self._request.output_format
        reasons = output_format is not None and output_format.reasons
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            cached_tokens=sum(self._cached.values()),
            reasoning_tokens=sum(c.answer.reasoned for c in self._choices) - self._reasoned
            if reasons
            else None,
        )
