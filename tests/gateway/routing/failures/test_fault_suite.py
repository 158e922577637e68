"""Every fault of a provider, streamed and not: what the client and upstream see."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.gateway.routing.failures.fault_scenarios import (
    CONTINUED,
    SCENARIOS,
    TRITON_STREAMS,
    Scenario,
    Sees,
    answers,
    continues,
    endless,
    unheard,
)
from tests.gateway.routing.failures.fault_tasks import TASKS, Task, client_sees
from tests.gateway.routing.failures.selection import Case, by_day, chosen
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[4]
SHORT = "{connect_s: 15, first_token_s: 0.8, between_tokens_s: 0.3, total_s: 1.5}"


class Pairing(Struct, frozen=True, kw_only=True):
    """A client's task, and who the provider is. prefix: of the paths there."""

    task: Task
    adapter: str
    prefix: str = ""


PAIRINGS: Mapping[str, Pairing] = {
    **{
        name: Pairing(task=task, adapter="openai", prefix="/v1")
        for name, task in TASKS.items()
        if task.is_text
    },
    "tokens": Pairing(task=TASKS["tokens"], adapter="mindie"),
    "tokens-stream": Pairing(task=TASKS["tokens-stream"], adapter="mindie"),
    "tensors": Pairing(task=TASKS["tensors"], adapter="triton-tokens"),
    "tensors-stream": Pairing(task=TASKS["tensors-stream"], adapter=TRITON_STREAMS),
    "tokens-stream on triton": Pairing(task=TASKS["tokens-stream"], adapter=TRITON_STREAMS),
    "tensors on mindie": Pairing(task=TASKS["tensors"], adapter="mindie"),
    **{
        f"{name} on mindie": Pairing(task=TASKS[name], adapter="mindie")
        for name in ("chat", "chat-stream", "completion", "completion-stream")
    },
}
ALWAYS = frozenset(
    {
        "chat",
        "chat-stream",
        "completion",
        "completion-stream",
        "embedding",
        "tokens",
        "tokens-stream",
        "tensors",
        "tensors-stream",
    }
)
CASES: Mapping[Case, Sees] = {
    (place, name): scenario.stream if pairing.task.stream else scenario.whole
    for place, scenario in enumerate(SCENARIOS)
    for name, pairing in PAIRINGS.items()
    if scenario.happens(name, pairing.adapter)
}
RECOVERED: Mapping[Case, Sees] = {
    (place, name): CONTINUED
    for place, name in CASES
    if SCENARIOS[place].recovers and PAIRINGS[name].task.stream
}
"""The same faults with `stream_recovery: continue`."""


def params(cases: Mapping[Case, Sees], more: str = "") -> list[object]:
    day = by_day(cases.items(), ALWAYS)
    return [
        pytest.param(
            place,
            name + more,
            id=f"{SCENARIOS[place].fault}, {name}{more}",
            marks=() if (place, name) in day else pytest.mark.nightly,
        )
        for place, name in cases
    ]


class Faults(Struct, frozen=True, kw_only=True, eq=False):
    """The gateway, the provider that fails as the path says, and who is at work in it.

    seen: how many requests of a model came. answered: what became of the scenarios so far.
    """

    cases: frozenset[Case]
    gateway: Serving
    remote: Provider
    working: Counter[str]
    seen: Counter[str]
    answered: dict[int, dict[str, httpx.Response]] = {}

    async def answers(self, place: int) -> dict[str, httpx.Response]:
        """Results of one scenario's clients, which all wait at the same time."""
        if place not in self.answered:
            names = sorted(name for where, name in self.cases if where == place)
            asking = [await self._begin(place, one) for one in names]
            self.answered[place] = {
                one: await each for one, each in zip(names, asking, strict=True)
            }
        return self.answered[place]

    async def _begin(self, place: int, one: str) -> asyncio.Task[httpx.Response]:
        """Send a request, and wait until it has arrived: no other one delays it on its way."""
        name = name_of(place, one)
        asking = asyncio.create_task(pairing_of(one).task.ask(self.gateway.url, name))
        await self.remote.until(lambda: asking.done() or bool(self.seen[f"{name}-first"]))
        return asking

    def asked(self, model: str) -> int:
        return self.seen[model]


def name_of(place: int, name: str) -> str:
    return f"fault-{place}-{name.replace(',', '').replace(' ', '-')}"


def pairing_of(name: str) -> Pairing:
    """With recovery, it is a server of the OpenAI dialect that continues chats."""
    pairing = PAIRINGS[name.removesuffix(", continued")]
    if pairing.adapter == "openai" and name.endswith(", continued"):
        return replace(pairing, adapter="vllm")
    return pairing


def model_of(request: Received) -> str:
    """The path begins with it, for not every dialect has it elsewhere."""
    return request.path.split("/")[1]


def config(cases: Iterable[Case], url: str, nowhere: str) -> str:
    """A model and two providers for each case: no breaker or budget is shared.

    url: without a path. nowhere: another, at which no server listens.
    """
    providers, models = ["providers:"], ["models:"]
    for place, one in cases:
        pairing, name = pairing_of(one), name_of(place, one)
        recovery = "continue" if one.endswith(", continued") else "error"
        for side, short in (("first", SCENARIOS[place].waits), ("second", False)):
            gone = side == "first" and SCENARIOS[place].first is unheard
            base_url = f"{nowhere if gone else url}/{name}-{side}{pairing.prefix}"
            providers.append(
                f"  - {{name: {name}-{side}, adapter: {pairing.adapter}, api_key: k,\n"
                f"     base_url: {base_url}, timeouts: {SHORT if short else '{}'}}}"
            )
        models.append(
            f"  - {{name: {name}, policy: in_order, deadline_s: 20, stream_recovery: {recovery},\n"
            "     retry: {backoff_s: 0.01, max_backoff_s: 0.05}, backends: [\n"
            f"     {{provider: {name}-first, model: m}}, {{provider: {name}-second, model: m}}]}}"
        )
    return "\n".join([*providers, *models])


@contextmanager
def closed_port() -> Generator[str, None]:
    """Return the URL of a port that is bound but not listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="module")
async def faults(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Faults, None]:
    tests = (test_the_client_and_upstream_see, test_a_stream_is_continued)
    cases = frozenset[Case]().union(
        *(chosen(request.session, __name__, one.__name__) for one in tests)
    )
    working: Counter[str] = Counter()
    seen: Counter[str] = Counter()

    async def behave(request: Received, answer: Answer) -> None:
        model = model_of(request)
        scenario = SCENARIOS[int(model.split("-")[1])]
        seen[model] += 1
        over = scenario.times is not None and seen[model] > scenario.times
        second = continues if "-continued-" in model else scenario.second
        failing = scenario.first if model.endswith("first") else second
        working[model] += 1
        try:
            await (answers if over else failing)(request, answer)
        finally:
            working[model] -= 1

    async with provider(behave) as remote:
        with closed_port() as nowhere:
            run_dir = tmp_path_factory.mktemp("run")
            text = config(sorted(cases), remote.origin, nowhere)
            async with serving(text, run_dir) as running:
                yield Faults(
                    cases=cases, gateway=running, remote=remote, working=working, seen=seen
                )


@pytest.mark.parametrize(("place", "task"), params(CASES))
async def test_the_client_and_upstream_see(faults: Faults, place: int, task: str) -> None:
    name, asks, sees = name_of(place, task), PAIRINGS[task].task, CASES[place, task]
    answer = (await faults.answers(place))[task]

    client_sees(asks, answer, sees)

    assert int(answer.headers["x-gateway-attempts"]) == sum(sees.asked)
    served = "second" if sees.asked[1] else "first"
    assert answer.headers["x-gateway-backend"].endswith(f"{served}/m")
    received = 0 if SCENARIOS[place].first is unheard else sees.asked[0]
    assert (faults.asked(f"{name}-first"), faults.asked(f"{name}-second")) == (
        received,
        sees.asked[1],
    )
    await faults.remote.until(lambda: not faults.working[f"{name}-first"])
    logged(faults, name, answer, sees, prompt=7 if asks.is_text else 3)


@pytest.mark.parametrize(("place", "task"), params(RECOVERED, ", continued"))
async def test_a_stream_is_continued(faults: Faults, place: int, task: str) -> None:
    """Where no backend continues text in a chat, it ends as without recovery.

    One that never ends has sent more tokens than the client asked for: nothing is left to continue.
    """
    name, asks, scenario = name_of(place, task), pairing_of(task).task, SCENARIOS[place]
    answer = (await faults.answers(place))[task]
    nothing_left = scenario.first is endless and not asks.is_text
    continued = task != "chat-stream on mindie, continued" and not nothing_left
    sees = CONTINUED if continued else scenario.stream

    if scenario.first is not endless:
        client_sees(asks, answer, sees)
    comments = answer.text.count(f": continued after {scenario.stream.error}")
    assert comments == int(continued and asks.surface not in ("databricks", "ollama"))
    assert (faults.asked(f"{name}-first"), faults.asked(f"{name}-second")) == sees.asked
    await faults.remote.until(lambda: not faults.working[f"{name}-first"])
    (line,) = [each for each in faults.gateway.access_lines() if each.model == name]
    assert line.error == ("" if nothing_left else sees.error)
    outcomes = [(attempt.outcome, attempt.continued) for attempt in line.attempts]
    expected = [(scenario.stream.error, continued), ("ok", False)]
    assert outcomes == expected[: sum(sees.asked)]


def logged(faults: Faults, name: str, answer: httpx.Response, sees: Sees, *, prompt: int) -> None:
    """One log line with every attempt, and with tokens only if a backend answered."""
    (line,) = [one for one in faults.gateway.access_lines() if one.model == name]
    assert (line.status, line.error) == (answer.status_code, sees.error)
    assert len(line.attempts) == sum(sees.asked)
    assert line.backend == answer.headers["x-gateway-backend"]
    if not sees.error:
        assert line.attempts[-1].outcome == "ok"
        assert line.prompt_tokens == prompt


def test_the_documentation_has_this_very_table() -> None:
    page = (ROOT / "docs/routing.md").read_text()

    missing = [scenario.row for scenario in SCENARIOS if scenario.row not in page]

    assert missing == []


def test_every_scenario_has_its_own_name() -> None:
    names: list[Scenario] = list({one.fault: one for one in SCENARIOS}.values())

    assert tuple(names) == SCENARIOS
