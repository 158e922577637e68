"""Which backend gets a request, by rules, policies and failures: over real sockets."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

MODELS = """
models:
  - name: ruled
    policy: in_order
    backends: [{provider: a, model: m}]
    when:
      - {header: {x-tier: "prem*"}, backends: [b/best]}
      - {tokens_over: 50, backends: [b/long, a/long]}
      - {features: [tools, stream], backends: [b/tools]}
  - {name: sticky, policy: sticky, backends: [{provider: a, model: m}, {provider: b, model: m}]}
  - {name: idle, policy: least_busy, backends: [{provider: a, model: m}, {provider: b, model: m}]}
  - {name: fast, policy: lowest_latency, backends: [{provider: a, model: slow},
      {provider: b, model: m}]}
  - {name: fast-stream, policy: lowest_latency, backends: [{provider: a, model: slow},
      {provider: b, model: m}]}
  - {name: cheap, policy: lowest_cost, backends: [{provider: a, model: m}, {provider: b, model: m}]}
  - name: led
    policy: in_order
    backends: [{provider: a, model: full}, {provider: b, model: never}]
    fallback_by_error: [{codes: [context_length_exceeded], models: [long]}]
  - name: filtered
    policy: in_order
    backends: [{provider: a, model: flagged}, {provider: b, model: never}]
    fallback_by_error: [{codes: ["vendor:invalid_prompt"], models: [long]}]
  - name: policed
    backends: [{provider: a, model: policed}]
    fallback_by_error: [{codes: [content_filter], models: [long]}]
  - {name: long, backends: [{provider: b, model: long}]}
  - {name: "open-*", backends: [{provider: a, model: "*"}]}
prices:
  - {match: a/*, input: 5, output: 15}
  - {match: b/m, input: 1, output: 2}
"""
TOO_LONG = {"message": "too long", "code": "context_length_exceeded", "param": "messages"}
TOOL = {"type": "function", "function": {"name": "f"}}


async def behave(request: Received, answer: Answer) -> None:
    model = request.json["model"]
    if model == "full":
        await answer.json({"error": TOO_LONG}, 400)
        return
    if model == "flagged":
        await answer.json({"error": {"message": "flagged", "code": "invalid_prompt"}}, 400)
        return
    if model == "policed":
        error = {"message": "policed", "code": "content_policy_violation"}
        await answer.json({"error": error}, 400)
        return
    if model == "slow":
        await asyncio.sleep(0.4)
    if "wait" in request.body.decode():
        await asyncio.sleep(0.2)
    if request.json.get("stream"):
        await answer.stream("hello")
    else:
        await answer.chat()


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[tuple[Serving, Provider, Provider], None]:
    async with provider(behave) as a, provider(behave) as b:
        config = f"""
providers:
  - {{name: a, adapter: openai, base_url: {a.base_url}, api_key: k}}
  - {{name: b, adapter: openai, base_url: {b.base_url}, api_key: k}}
{MODELS}"""
        async with serving(config, tmp_path_factory.mktemp("run"), seed=1) as running:
            yield running, a, b


Gateway = tuple[Serving, Provider, Provider]


async def ask(
    gateway: Gateway, model: str, text: str = "hi", headers: dict[str, str] | None = None,
    **more: object,
) -> httpx.Response:  # fmt: skip
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    async with httpx.AsyncClient(timeout=60) as client:
        url = f"{gateway[0].url}/v1/chat/completions"
        return await client.post(url, json=body, headers=headers, timeout=60)


async def backend_of(
    gateway: Gateway, model: str, text: str = "hi", headers: dict[str, str] | None = None,
    **more: object,
) -> str:  # fmt: skip
    answer = await ask(gateway, model, text, headers, **more)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-gateway-backend"]


async def test_the_first_rule_that_matches_selects_the_backends(gateway: Gateway) -> None:
    plain = await backend_of(gateway, "ruled")
    premium = await backend_of(gateway, "ruled", "x" * 400, {"x-tier": "premium"})
    long = await backend_of(gateway, "ruled", "x" * 400)
    tools = await backend_of(gateway, "ruled", tools=[TOOL], stream=True)
    not_streamed = await backend_of(gateway, "ruled", tools=[TOOL])

    assert [plain, premium, long, tools] == ["a/m", "b/best", "b/long", "b/tools"]
    assert not_streamed == "a/m"


async def test_a_user_stays_at_one_backend_and_users_are_spread(gateway: Gateway) -> None:
    homes = {
        user: {await backend_of(gateway, "sticky", user=f"u{user}") for _ in range(3)}
        for user in range(12)
    }

    assert all(len(found) == 1 for found in homes.values())
    assert len({home for found in homes.values() for home in found}) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_concurrent_requests_go_to_idle_backends(gateway: Gateway, stream: bool) -> None:
    found = await asyncio.gather(
        *(backend_of(gateway, "idle", "wait", stream=stream) for _ in range(6))
    )

    assert Counter(found) == {"a/m": 3, "b/m": 3}


@pytest.mark.parametrize("stream", [False, True])
async def test_the_faster_backend_is_found(gateway: Gateway, stream: bool) -> None:
    model = "fast-stream" if stream else "fast"
    found = [await backend_of(gateway, model, stream=stream) for _ in range(8)]

    assert Counter(found[2:]) == {"b/m": 6}


async def test_the_cheaper_backend_answers_and_its_cost_is_in_the_log(gateway: Gateway) -> None:
    found = await backend_of(gateway, "cheap")

    line = gateway[0].access_lines()[-1]
    assert found == line.backend == "b/m"
    assert line.cost_usd == pytest.approx((7 * 1 + 3 * 2) / 1e6)


async def test_a_wildcards_price_is_that_of_the_model_that_answered(gateway: Gateway) -> None:
    await backend_of(gateway, "open-one")

    line = gateway[0].access_lines()[-1]
    assert line.cost_usd == pytest.approx((7 * 5 + 3 * 15) / 1e6)


async def test_an_unknown_cost_is_counted_as_unknown(gateway: Gateway) -> None:
    await backend_of(gateway, "long")

    line = gateway[0].access_lines()[-1]
    metrics = (await gateway[0].state.processes.metrics_text())[0].decode()
    assert line.cost_usd is None
    assert line.unpriced
    assert 'strowger_unpriced_requests_total{backend="b/long",model="long"}' in metrics


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_is_too_long_goes_directly_to_the_longer_model(
    gateway: Gateway, stream: bool
) -> None:
    answer = await ask(gateway, "led", stream=stream)

    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == "b/long"
    assert answer.headers["x-gateway-attempts"] == "2"


@pytest.mark.parametrize("model", ["filtered", "policed"])
async def test_fallback_by_error_works_for_a_vendors_own_code(gateway: Gateway, model: str) -> None:
    answer = await ask(gateway, model)

    assert answer.headers["x-gateway-backend"] == "b/long"


async def test_if_the_fallback_by_error_fails_too_the_client_gets_its_error(tmp_path: Path) -> None:
    async def full(request: Received, answer: Answer) -> None:
        await answer.json({"error": {**TOO_LONG, "message": str(request.json["model"])}}, 400)

    async with provider(full) as a:
        config = f"""
providers: [{{name: a, adapter: openai, base_url: {a.base_url}, api_key: k}}]
models:
  - name: led
    backends: [{{provider: a, model: short}}]
    fallback_by_error: [{{codes: [context_length_exceeded], models: [long]}}]
  - {{name: long, backends: [{{provider: a, model: long}}]}}
"""
        async with serving(config, tmp_path) as running:
            answer = await ask((running, a, a), "led")

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith("long")
    assert [one.json["model"] for one in a.requests] == ["short", "long"]
