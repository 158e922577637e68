"""CPU time that routing, breaker, experiment and recording add to a request; the bound is 15 µs.

`python -m benchmarks.experiment_overhead`: two paths in turn, and the median of each over all
rounds. Without: call the upstream, write the access line and update the metrics. With: the same
after enrolment and planning, through the pipeline with its breaker, and with the requests recorded,
packed and written by the recorder's thread, whose CPU time counts as well.

The speed of a shared processor can change by half within a tenth of a second. So a round consists
of many short turns of both paths, which see the same speeds, and each thread's time counts for its
own path. The bound was set on another machine: json.loads of a request of 1.5 KB, timed there and
here between the turns, gives the speed of this one during the run.
"""

import asyncio
import gc
import io
import json
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.planning.enrolment import (
    ExperimentRouter,
    ExperimentState,
    ExperimentStatus,
    fingerprint,
)
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Backend, Route, RouteTable
from strowger_gateway.gateway.routing.request_record import (
    AttemptRecord,
    RequestRecord,
    new_request_id,
)
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget
from strowger_gateway.schemas.answers import Embeddings, Fold
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, Usage
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest
from strowger_gateway.schemas.sampling import Sampling

ROUNDS: Final = 9
TURNS: Final = 8
"""Requests of each path per round."""
REQUESTS: Final = 500
"""Requests per turn: one of each user."""
LOADS: Final = 250
YARDSTICK: Final = 4.3
"""Microseconds of json.loads on the machine where the bound was set."""
WRITTEN_S: Final = 1.0
"""Seconds within which the recorder's thread writes the rows of a round."""
CONFIG: Final = """
providers: [{name: a, adapter: openai, api_key: k}]
models:
  - {name: chat, backends: [{provider: a, model: old}, {provider: a, model: new}]}
experiments:
  - name: trial
    model: chat
    primary: thumbs_up
    variants:
      - {name: control, backend: a/old, weight: 50}
      - {name: treatment, backend: a/new, weight: 50}
"""
EVENTS: Final[list[Event]] = [
    Started(id="x", model="m"),
    TextDelta(text="hello"),
    Usage(prompt_tokens=7, completion_tokens=3),
    Finished(reason="stop"),
]


class Immediate:
    """An upstream that answers immediately."""

    name = "a"
    supports = Supports(chat=frozenset({"messages", "user", "temperature", "max_tokens"}))

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        yield EVENTS

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return Embeddings(vectors=())

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return 0

    async def aclose(self) -> None:
        return


UPSTREAM: Final = Immediate()
ASKED: Final = [
    ChatRequest(
        model="chat",
        messages=(Message(role="user", content="hi"),),
        sampling=Sampling(temperature=0.7, max_tokens=100),
        user=f"user-{number}",
    )
    for number in range(REQUESTS)
]


def record_of(request: ChatRequest) -> RequestRecord:
    return RequestRecord(
        request_id=new_request_id(),
        started=now(),
        surface="openai",
        task="chat",
        model=request.model,
        route="chat",
        attempts=[],
    )


async def without(gateway: Gateway, requests: int = REQUESTS) -> None:
    for number in range(requests):
        request = ASKED[number % len(ASKED)]
        record = record_of(request)
        call = Call(model="old", deadline=now() + 600, request_id=record.request_id)
        fold = Fold()
        async for batch in UPSTREAM.generate(request, call):
            fold.add(batch)
            record.first_content_at = now()
        fold.answer()
        record.deltas, record.usage = fold.deltas, fold.usage
        record.backend = "a/old"
        record.attempts.append(AttemptRecord(backend="a/old", outcome="ok"))
        gateway.log.record_request(record, 200, now(), gateway.runtime.prices)


async def within(planner: Planner, gateway: Gateway, requests: int = REQUESTS) -> None:
    route = planner.table.routes["chat"]
    for number in range(requests):
        request = ASKED[number % len(ASKED)]
        record = record_of(request)
        facts = RequestFacts(
            uniform_draw=gateway.random.random(), now=record.started, request_id=record.request_id
        )
        enrolment = planner.enrol(route, request, facts)
        if enrolment is not None:
            record.participation = enrolment.participation
        planned = planner.plan(route, request, facts, enrolment)
        record.candidates = planned.names
        await pipeline.collect(planned, request, record)
        gateway.log.record_request(record, 200, now(), gateway.runtime.prices)


def planner_of(state: ExperimentState) -> Planner:
    (experiment,) = read_config(CONFIG, source="config.yaml", env={}).experiments
    backends = {
        name: Backend(
            name=name,
            model=name.partition("/")[2],
            upstream=UPSTREAM,
            supports=UPSTREAM.supports,
            breaker=Breaker(BreakerRule()),
            budget=RetryBudget(),
        )
        for name in ("a/old", "a/new")
    }
    state.push({fingerprint(experiment): ExperimentStatus(epoch=1)})
    route = Route(
        name="chat",
        backends=tuple(backends.values()),
        weights=(1.0, 1.0),
        policy=POLICIES["weighted"],
    )
    router = ExperimentRouter(experiment, backends.__getitem__, state)
    return Planner(RouteTable([route], {}), {"chat": router})


def yardstick() -> float:
    """Microseconds of CPU that json.loads of a 1.5 KB request takes; measures for a few ms."""
    turns = [{"role": "user", "content": "x" * 340} for _ in range(4)]
    body = json.dumps({"model": "m", "messages": turns, "temperature": 0.7, "max_tokens": 100})
    began = time.thread_time()
    for _ in range(LOADS):
        json.loads(body)
    return (time.thread_time() - began) / LOADS * 1e6


class Round(NamedTuple):
    """Microseconds of CPU: of a request on each path, and of json.loads between the turns."""

    without: float
    full: float
    loads: float

    @property
    def overhead(self) -> float:
        return self.full - self.without

    @property
    def there(self) -> float:
        """The overhead at the speed of the machine on which the bound was set."""
        return self.overhead * YARDSTICK / self.loads


class Walk:
    """One path, and the CPU time of all its threads."""

    def __init__(
        self, runtime: Runtime, spool: Path | None, path: Callable[[Gateway], Awaitable[None]]
    ) -> None:
        before = threading.enumerate()
        self._recorder = None if spool is None else FileRecorder(Spool(spool))
        self.gateway = Gateway(runtime, AccessLog(io.BytesIO(), "json"), recorder=self._recorder)
        own = [thread for thread in threading.enumerate() if thread not in before]
        self._clocks = [time.pthread_getcpuclockid(one.ident) for one in own if one.ident]
        self._path = path
        self._here = self._then = 0.0

    async def turn(self) -> None:
        began = time.thread_time()
        await self._path(self.gateway)
        self.gateway.log.flush()
        self._here += time.thread_time() - began

    def spent(self) -> float:
        """Seconds of CPU since the last call. Everything must be written by now."""
        now = self._here + sum(map(time.clock_gettime, self._clocks))
        spent, self._then = now - self._then, now
        return spent

    def close(self) -> None:
        self.gateway.log.access_log.close()
        if self._recorder is not None:
            self._recorder.close()


async def measured(folder: Path) -> list[Round]:
    runtime = Runtime(read_config(CONFIG, source="config.yaml", env={}), run_dir=folder)
    planner = planner_of(runtime.routing.experiments)
    plain = Walk(runtime, None, without)
    full = Walk(runtime, folder / "spool", partial(within, planner))
    rounds: list[Round] = []
    for _ in range(ROUNDS + 1):
        gc.collect()
        loads = [yardstick()]
        for _ in range(TURNS):
            await plain.turn()
            loads.append(yardstick())
            await full.turn()
            loads.append(yardstick())
        await asyncio.sleep(WRITTEN_S)
        each = 1e6 / (TURNS * REQUESTS)
        rounds.append(Round(plain.spent() * each, full.spent() * each, statistics.mean(loads)))
    plain.close()
    full.close()
    await runtime.close()
    return rounds[1:]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        gc.set_threshold(20_000, 20, 20)
        rounds = asyncio.run(measured(Path(folder)))

    def middle(values: Iterable[float]) -> float:
        return statistics.median(values)

    print(f"µs of CPU per request, median of {ROUNDS} alternating rounds")
    print(f"without     {middle(one.without for one in rounds):6.1f}")
    print(f"with        {middle(one.full for one in rounds):6.1f}")
    print(f"overhead    {middle(one.overhead for one in rounds):6.1f}   (at most 15)")
    print(f"json.loads  {middle(one.loads for one in rounds):6.1f}   in the same rounds")
    print(f"overhead at the speed of the reference machine (json.loads: {YARDSTICK} µs):")
    print(f"            {middle(one.there for one in rounds):6.1f}")


if __name__ == "__main__":
    main()
