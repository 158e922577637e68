"""Every fault of a local engine, for every task: what the client and the engine see.

Over the engine's socket, and over TCP with mutual TLS.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.backends.engines.link.fleets import Certificates
from tests.gateway.backends.engines.link.transports import TRANSPORTS
from tests.gateway.routing.failures.engine_faults import (
    ENGINE_SCENARIOS,
    EngineScenario,
    continues,
    endless,
    slow_first_token,
    stalls,
)
from tests.gateway.routing.failures.engine_stand_in import Asked, Door, StandIns, stand_ins, works
from tests.gateway.routing.failures.fault_scenarios import CONTINUED, Sees
from tests.gateway.routing.failures.fault_scenarios import continues as continues_text
from tests.gateway.routing.failures.fault_tasks import TASKS, client_sees, status
from tests.gateway.routing.failures.selection import Case, by_day, chosen
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[4]
SHORT = "{connect_s: 15, first_token_s: 0.8, between_tokens_s: 0.3, total_s: 1.5}"
APART = SHORT.replace("total_s: 1.5", "total_s: 15")
"""Where it must be one of the others that cuts. A vector has no tokens."""
UNREADY = APART.replace("connect_s: 15", "connect_s: 0.8")


ALWAYS = frozenset(
    {
        "chat",
        "chat-stream",
        "completion",
        "completion-stream",
        "embedding",
        "tokens",
        "tokens-stream",
    }
)
CASES: Mapping[Case, Sees] = {
    (place, task): scenario.stream if asks.stream else scenario.whole
    for place, scenario in enumerate(ENGINE_SCENARIOS)
    for task, asks in TASKS.items()
}
RECOVERED: Mapping[Case, Sees] = {
    (place, task): CONTINUED
    for place, task in CASES
    if ENGINE_SCENARIOS[place].recovers
    and TASKS[task].stream
    and ENGINE_SCENARIOS[place].first is not endless
}
"""Faults of the same engines with `stream_recovery: continue`."""


def params(cases: Mapping[Case, Sees]) -> list[object]:
    day = by_day(cases.items(), ALWAYS)
    return [
        pytest.param(
            place,
            task,
            id=f"{ENGINE_SCENARIOS[place].fault}, {task}",
            marks=() if (place, task) in day else pytest.mark.nightly,
        )
        for place, task in cases
    ]


class Faults(Struct, frozen=True, kw_only=True, eq=False):
    """The gateway, its engines, and who is at work in an engine.

    remote: how many requests of a model the provider beside the engines received.
    answered: what became of the scenarios so far.
    """

    cases: frozenset[Case]
    gateway: Serving
    engines: StandIns
    remote: Counter[str]
    working: Counter[str]
    answered: dict[int, dict[str, httpx.Response]] = {}

    async def answers(self, place: int) -> dict[str, httpx.Response]:
        """Results of one scenario's tasks, which all wait at the same time."""
        if place not in self.answered:
            names = sorted(task for where, task in self.cases if where == place)
            asking = [await begun(self, place, task) for task in names]
            self.answered[place] = {
                task: await each for task, each in zip(names, asking, strict=True)
            }
        return self.answered[place]

    def asked(self, model: str) -> int:
        return self.engines.count(model) + self.remote[model]


def name_of(place: int, task: str) -> str:
    return f"fault-{place}-{task}"


def on_socket(model: str, door: Door) -> str:
    """The engine is found by the provider's name, see `doors`."""
    return f'adapter: local, engine: {{models: [{{name: {model}, path: "bundled:tiny-chat"}}]}}'


Ways = Callable[[str, Door], str]
"""The adapter and the engine of a provider, as YAML, by model and door."""


def config(cases: Iterable[Case], recovered: Iterable[Case], url: str, way: Ways) -> str:
    """A model and two providers for each case: no breaker or budget is shared.

    The second is remote where it speaks the task, for tokens it is an engine as well.
    """
    providers, models = ["providers:"], ["models:"]
    for place, task in cases:
        name, scenario = name_of(place, task), ENGINE_SCENARIOS[place]
        remote = f"adapter: openai, base_url: {url}, api_key: k"
        other = remote if TASKS[task].is_text else way(f"{name}-second", "opens")
        first_way = way(f"{name}-first", scenario.door)
        providers += [
            f"  - {{name: {name}-first, {first_way}, timeouts: {limits_of(scenario, task)}}}",
            f"  - {{name: {name}-second, {other}}}",
        ]
        models.append(model(name, f"{name}-first", f"{name}-second"))
    for place, task in recovered:
        name, limits = name_of(place, task), limits_of(ENGINE_SCENARIOS[place], task)
        first, second = f"{name}-continued-first", f"{name}-continued-second"
        vllm = f"adapter: vllm, base_url: {url}, api_key: k"
        providers += [
            f"  - {{name: {first}, {way(first, 'opens')}, timeouts: {limits}}}",
            f"  - {{name: {second}, {vllm if TASKS[task].is_text else way(second, 'opens')}}}",
        ]
        models.append(model(f"{name}-continued", first, second, "continue"))
    return "\n".join([*providers, *models])


def limits_of(scenario: EngineScenario, task: str) -> str:
    stuck = scenario.first in (slow_first_token, stalls) and task != "embedding"
    limits = "{}" if not scenario.waits else APART if stuck else SHORT
    return UNREADY if scenario.door == "silent" else limits


def model(name: str, first: str, second: str, recovery: str = "error") -> str:
    return (
        f"  - {{name: {name}, policy: in_order, deadline_s: 20, stream_recovery: {recovery},\n"
        "     retry: {backoff_s: 0.01, max_backoff_s: 0.05}, backends: [\n"
        f"     {{provider: {first}, model: {first}}},\n"
        f"     {{provider: {second}, model: {second}}}]}}"
    )


def scenario_of(model: str) -> EngineScenario:
    return ENGINE_SCENARIOS[int(model.split("-")[1])]


@pytest.fixture(scope="module", params=TRANSPORTS)
async def faults(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Faults, None]:
    working: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    by_remote: Counter[str] = Counter()

    async def conduct(asked: Asked) -> None:
        model = asked.model
        scenario = scenario_of(model)
        seen[model] += 1
        working[model] += 1
        over = scenario.times is not None and seen[model] > scenario.times
        fails = not over if model.endswith("first") else scenario.second_fails
        try:
            later = continues if "-continued-" in model else works
            await (scenario.first if fails else later)(asked)
        finally:
            working[model] -= 1

    async def behave(request: Received, answer: Answer) -> None:
        model = str(request.json["model"])
        by_remote[model] += 1
        if scenario_of(model).second_fails:
            await answer.json({"error": {"message": "boom"}}, 500)
        elif "-continued-" in model:
            await continues_text(request, answer)
        else:
            await answers(request, answer)

    doors: dict[str, Door] = {
        f"{name_of(place, task)}-first": ENGINE_SCENARIOS[place].door for place, task in CASES
    }
    cases = chosen(request.session, __name__, test_the_client_and_the_engine_see.__name__)
    recovered = chosen(request.session, __name__, test_an_engines_stream_is_continued.__name__)
    run_dir = tmp_path_factory.mktemp("run")
    certificates = Certificates(run_dir)
    context = None if request.param == "socket" else certificates.server_context()
    async with stand_ins(run_dir, conduct, doors, context) as engines, provider(behave) as remote:

        def on_tcp(model: str, door: Door) -> str:
            host = f"127.0.0.1:{engines.ports[door]}"
            return f'adapter: local, engines: {{hosts: ["{host}"], tls: {certificates.tls()}}}'

        way = on_socket if context is None else on_tcp
        text = config(sorted(cases), sorted(recovered), remote.base_url, way)
        async with serving(text, run_dir, engine=engines) as running:
            yield Faults(
                cases=cases, gateway=running, engines=engines, remote=by_remote, working=working
            )


async def begun(faults: Faults, place: int, task: str) -> asyncio.Task[httpx.Response]:
    """Send a request, and wait until it has arrived: no other one delays it on its way."""
    name = name_of(place, task)
    asking = asyncio.create_task(TASKS[task].ask(faults.gateway.url, name))
    if ENGINE_SCENARIOS[place].door == "opens":
        await faults.engines.until(lambda: asking.done() or bool(faults.asked(f"{name}-first")))
    return asking


@pytest.mark.parametrize(("place", "task"), params(RECOVERED))
async def test_an_engines_stream_is_continued(faults: Faults, place: int, task: str) -> None:
    """By text, because these engines do not say which tokens they draw."""
    name, asks, scenario = f"{name_of(place, task)}-continued", TASKS[task], ENGINE_SCENARIOS[place]

    answer = await asks.ask(faults.gateway.url, name)

    client_sees(asks, answer, CONTINUED)
    (line,) = [one for one in faults.gateway.access_lines() if one.model == name]
    outcomes = [(one.outcome, one.continued) for one in line.attempts]
    assert outcomes == [(scenario.stream.error, True), ("ok", False)]


@pytest.mark.parametrize(("place", "task"), params(CASES))
async def test_the_client_and_the_engine_see(faults: Faults, place: int, task: str) -> None:
    answer = (await faults.answers(place))[task]
    name, asks, scenario = name_of(place, task), TASKS[task], ENGINE_SCENARIOS[place]
    sees = CASES[place, task]
    served = "second" if sees.asked[1] else "first"

    client_sees(asks, answer, sees)

    received = sees.asked[0] if scenario.door == "opens" else 0
    assert answer.headers["x-gateway-backend"].endswith(served)
    assert int(answer.headers["x-gateway-attempts"]) == sum(sees.asked) - scenario.refuses
    assert (faults.asked(f"{name}-first"), faults.asked(f"{name}-second")) == (
        received,
        sees.asked[1],
    )
    await faults.engines.until(lambda: not faults.working[f"{name}-first"])
    (line,) = [one for one in faults.gateway.access_lines() if one.model == name]
    assert (line.status, line.error) == (status(asks, sees), sees.error)
    assert len(line.attempts) == sum(sees.asked)
    assert sees.error or (line.attempts[-1].outcome, line.prompt_tokens) == ("ok", 7)


def test_the_documentation_has_this_very_table() -> None:
    page = (ROOT / "docs/routing.md").read_text()

    missing = [scenario.row for scenario in ENGINE_SCENARIOS if scenario.row not in page]

    assert missing == []
