"""Every way in which a provider fails, streamed and not: what the client and upstream see."""

import json
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.fault_scenarios import SCENARIOS, Scenario, Sees
from tests.gateway.serving import Serving, serving
from tests.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT: dict[str, object] = {"messages": MESSAGES}
TASKS: dict[str, tuple[str, dict[str, object]]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "chat-stream": ("/v1/chat/completions", {**CHAT, "stream": True}),
    "completion": ("/v1/completions", {"prompt": "hi"}),
    "completion-stream": ("/v1/completions", {"prompt": "hi", "stream": True}),
    "embedding": ("/v1/embeddings", {"input": "hi"}),
}
CASES = [
    pytest.param(place, task, id=f"{scenario.fault}, {task}")
    for place, scenario in enumerate(SCENARIOS)
    for task in TASKS
    if task.startswith("chat") or not scenario.speaks_chat
]


class Faults(Struct, frozen=True, kw_only=True, eq=False):
    """The gateway, the provider that fails as the model's name says, and who is at work in it."""

    gateway: Serving
    remote: Provider
    working: Counter[str]

    def asked(self, model: str) -> int:
        return sum(one.json["model"] == model for one in self.remote.requests)


def name_of(place: int, task: str) -> str:
    return f"fault-{place}-{task}"


def config(url: str) -> str:
    """A model and two providers for each scenario and task: no breaker or budget is shared."""
    providers, models = ["providers:"], ["models:"]
    short = "{connect_s: 5, first_token_s: 0.3, between_tokens_s: 0.3, total_s: 0.6}"
    for place, scenario in enumerate(SCENARIOS):
        limits = {"first": short if scenario.waits else "{}", "second": "{}"}
        for task in TASKS:
            name = name_of(place, task)
            providers += [
                f"  - {{name: {name}-{side}, adapter: openai, base_url: {url}, api_key: k,\n"
                f"     timeouts: {limits[side]}}}"
                for side in ("first", "second")
            ]
            models.append(
                f"  - {{name: {name}, policy: in_order, deadline_s: 20,\n"
                "     retry: {backoff_s: 0.01, max_backoff_s: 0.05}, backends: [\n"
                f"     {{provider: {name}-first, model: {name}-first}},\n"
                f"     {{provider: {name}-second, model: {name}-second}}]}}"
            )
    return "\n".join([*providers, *models])


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def faults(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Faults, None]:
    working: Counter[str] = Counter()
    seen: Counter[str] = Counter()

    async def behave(request: Received, answer: Answer) -> None:
        model = str(request.json["model"])
        scenario = SCENARIOS[int(model.split("-")[1])]
        seen[model] += 1
        over = scenario.times is not None and seen[model] > scenario.times
        failing = scenario.first if model.endswith("first") else scenario.second
        working[model] += 1
        try:
            await (answers if over else failing)(request, answer)
        finally:
            working[model] -= 1

    async with provider(behave) as remote:
        async with serving(config(remote.base_url), tmp_path_factory.mktemp("run")) as running:
            yield Faults(gateway=running, remote=remote, working=working)


async def post(url: str, path: str, body: dict[str, object]) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url) as client:
        return await client.post(path, json=body, timeout=10)


@pytest.mark.parametrize(("place", "task"), CASES)
async def test_the_client_and_upstream_see(faults: Faults, place: int, task: str) -> None:
    name, (path, body) = name_of(place, task), TASKS[task]
    scenario, streamed = SCENARIOS[place], task.endswith("stream")
    sees = scenario.stream if streamed else scenario.whole

    answer = await post(faults.gateway.url, path, {"model": name, **body})

    client_sees(answer, sees, streamed=streamed)
    assert (faults.asked(f"{name}-first"), faults.asked(f"{name}-second")) == sees.asked
    await faults.remote.until(lambda: not faults.working[f"{name}-first"], 1)
    logged(faults, name, answer, sees)


def client_sees(answer: httpx.Response, sees: Sees, *, streamed: bool) -> None:
    assert answer.status_code == sees.status
    assert int(answer.headers["x-gateway-attempts"]) == sum(sees.asked)
    if sees.status != 200:
        assert answer.json()["error"]["code"] == sees.error
        return
    assert answer.headers["x-gateway-backend"].endswith("second" if sees.asked[1] else "first")
    if not streamed:
        assert '"hello"' in answer.text or "[0.5" in answer.text
        return
    frames = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    if sees.error:
        assert json.loads(frames[-1])["error"]["code"] == sees.error
        assert "[DONE]" not in frames
        assert '"finish_reason":"stop"' not in answer.text
    else:
        assert text_of(frames[:-1]) == "hello"
        assert frames[-1] == "[DONE]"


def text_of(frames: list[str]) -> str:
    choices = [one for frame in frames for one in json.loads(frame)["choices"]]
    return "".join(
        [one.get("text") or one.get("delta", {}).get("content") or "" for one in choices]
    )


def logged(faults: Faults, name: str, answer: httpx.Response, sees: Sees) -> None:
    """One line, which tells of every attempt, and of tokens only where somebody answered."""
    (line,) = [one for one in faults.gateway.access_lines() if one.model == name]
    assert (line.status, line.error) == (sees.status, sees.error)
    assert len(line.attempts) == sum(sees.asked)
    assert line.backend == answer.headers["x-gateway-backend"]
    if not sees.error:
        assert line.attempts[-1].outcome == "ok"
        assert line.prompt_tokens == 7


def test_the_documentation_has_this_very_table() -> None:
    page = (ROOT / "docs/routing.md").read_text()

    missing = [scenario.row for scenario in SCENARIOS if scenario.row not in page]

    assert missing == []


def test_every_scenario_has_a_name_of_its_own() -> None:
    names: list[Scenario] = list({one.fault: one for one in SCENARIOS}.values())

    assert tuple(names) == SCENARIOS
