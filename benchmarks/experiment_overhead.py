"""CPU time that routing, breaker, experiment and recording add to a request; the bound is 15 µs.

`python -m benchmarks.experiment_overhead`: two paths in turn, and the median of each over all
rounds. Without: the upstream is asked, and the access line and the metrics are made. With: the
same after enrolment and plan, through the pipeline with its breaker, and with the rows of the
request recorded, packed and written by the recorder's thread, whose CPU time counts too.

The bound was set on another machine; json.loads of a request of 1.5 KB, timed there and here,
tells how the two compare.
"""

import asyncio
import gc
import io
import json
import statistics
import tempfile
import time
import timeit
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Final

from adapters.base import Supports
from gateway.clock import now
from gateway.config.load import read_config
from gateway.config.model import Breaker as BreakerRule
from gateway.endpoint import note
from gateway.records.recorder import FileRecorder
from gateway.records.spool import Spool
from gateway.request_ids import uuid7
from gateway.routing import pipeline
from gateway.routing.breaker import Breaker
from gateway.routing.facts import Facts
from gateway.routing.plan import enrol, plan
from gateway.routing.policies import POLICIES
from gateway.routing.retry import RetryBudget
from gateway.routing.route import Backend, Route, RouteTable
from gateway.routing.trial import ExperimentState, Standing, Trial, fingerprint
from gateway.routing.trip import Attempt, Trip
from gateway.runtime import Runtime
from gateway.state import Gateway
from gateway.telemetry.access_log import AccessLog
from gateway.upstream.base import Call
from schemas.answers import Embeddings, Fold
from schemas.events import Event, Finished, Started, TextDelta, Usage
from schemas.messages import Message
from schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest

ROUNDS: Final = 9
REQUESTS: Final = 4_000
YARDSTICK: Final = 4.3
WRITTEN_S: Final = 1.0
"""By then the recorder's thread has written a round's rows."""
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
    """An upstream that answers at once."""

    name = "a"
    supports = Supports(chat=frozenset({"messages", "user"}))

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        yield EVENTS

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return Embeddings(vectors=())

    async def aclose(self) -> None:
        return


UPSTREAM: Final = Immediate()
ASKED: Final = [
    ChatRequest(model="chat", messages=(Message(role="user", content="hi"),), user=f"user-{number}")
    for number in range(500)
]


def trip_of(request: ChatRequest) -> Trip:
    return Trip(
        request_id=uuid7(),
        started=now(),
        surface="openai",
        task="chat",
        model=request.model,
        route="chat",
        attempts=[],
    )


async def without(gateway: Gateway) -> None:
    for number in range(REQUESTS):
        request = ASKED[number % len(ASKED)]
        trip = trip_of(request)
        call = Call(model="old", deadline=now() + 600, request_id=trip.request_id)
        fold = Fold()
        async for batch in UPSTREAM.generate(request, call):
            fold.add(batch)
            trip.first_content = now()
        fold.answer()
        trip.deltas, trip.usage = fold.deltas, fold.usage
        trip.backend = "a/old"
        trip.attempts.append(Attempt(backend="a/old", outcome="ok"))
        gateway.book(trip, 200, now())


def within(table: RouteTable) -> Callable[[Gateway], Awaitable[None]]:
    route = table.routes["chat"]

    async def run(gateway: Gateway) -> None:
        for number in range(REQUESTS):
            request = ASKED[number % len(ASKED)]
            trip = trip_of(request)
            facts = Facts(
                draw=gateway.random.random(), now=trip.started, request_id=trip.request_id
            )
            enrolment = enrol(route, request, facts)
            if enrolment is not None:
                note(enrolment, trip)
            await pipeline.whole(plan(table, route, request, facts, enrolment), request, trip)
            gateway.book(trip, 200, now())

    return run


def table_of(state: ExperimentState) -> RouteTable:
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
    state.push({fingerprint(experiment): Standing(epoch=1)})
    route = Route(
        name="chat",
        backends=tuple(backends.values()),
        weights=(1.0, 1.0),
        policy=POLICIES["weighted"],
        trial=Trial(experiment, backends.__getitem__, state),
    )
    return RouteTable([route], {})


def yardstick() -> float:
    """Microseconds of json.loads of a request of 1.5 KB, the least of many."""
    turns = [{"role": "user", "content": "x" * 340} for _ in range(4)]
    body = json.dumps({"model": "m", "messages": turns, "temperature": 0.7, "max_tokens": 100})
    return min(timeit.repeat(lambda: json.loads(body), number=200, repeat=200)) / 200 * 1e6


async def measured(folder: Path) -> tuple[list[float], list[float]]:
    """Microseconds of CPU a request by round: without, with."""
    runtime = Runtime(read_config(CONFIG, source="config.yaml", env={}), run_dir=folder)
    recorder = FileRecorder(Spool(folder / "spool"))
    plain = Gateway(runtime, AccessLog(io.BytesIO(), "json"))
    full = Gateway(runtime, AccessLog(io.BytesIO(), "json"), recorder=recorder)
    paths = ((plain, without), (full, within(table_of(runtime.experiments))))
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS + 1):
        for (gateway, path), times in zip(paths, found, strict=True):
            gc.collect()
            began = time.process_time()
            await path(gateway)
            gateway.write_books()
            gateway.access_log.settle()
            await asyncio.sleep(WRITTEN_S)
            if turn:
                times.append((time.process_time() - began) / REQUESTS * 1e6)
    for gateway, _ in paths:
        gateway.access_log.close()
    recorder.close()
    await runtime.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        gc.set_threshold(20_000, 20, 20)
        plain, full = asyncio.run(measured(Path(folder)))
    one, other = statistics.median(plain), statistics.median(full)
    between = statistics.median(b - a for a, b in zip(plain, full, strict=True))
    print(f"without   {one:6.1f} µs CPU a request, median of {ROUNDS} alternating rounds")
    print(f"with      {other:6.1f}")
    print(f"overhead  {between:6.1f}   (at most 15)")
    print(f"json.loads of 1.5 KB: {yardstick():.1f} µs ({YARDSTICK} where the bound was set)")


if __name__ == "__main__":
    main()
