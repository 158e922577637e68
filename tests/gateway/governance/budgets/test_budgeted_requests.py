"""Budgets at the wire: who is refused or moved, what clients see, and what counts."""

import asyncio
import contextlib
from pathlib import Path

import anthropic
import openai
import pytest

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from tests.gateway.governance.limits.test_limited_requests import (
    AUTH,
    INFER,
    PATHS,
    says_hello,
    send,
    until_idle,
)
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

PRICES = "prices: [{match: remote/*, input: 1000000, output: 2000000}]"
"""A dollar per token of a prompt, two per token of an answer: HELLO reserves 4 + 2 * 20 = 44 USD,
and the provider's answer costs 7 + 2 * 3 = 13 USD."""

SPARE = """    fallback: [spare]
    fallback_by_error: [{codes: [rate_limit_exceeded], models: [spare]}]
  - {name: spare, backends: [{provider: remote, model: m-2}]}
"""


def config(base_url: str, budgets: str, model_more: str = "", prices: str = PRICES) -> str:
    return one_model(base_url, f"{AUTH}\n{prices}\nbudgets:\n{budgets}", model_more)


def spent(gateway: Serving) -> float:
    """The sum of the access lines."""
    return sum(line.cost_usd or 0.0 for line in gateway.access_lines())


async def test_a_used_up_budget_refuses_with_its_name_and_the_moment_it_begins_again(
    tmp_path: Path,
) -> None:
    """Two answers cost 26; the third request may cost 44 more."""
    budgets = "  - {name: web-money, who: {key: web}, usd: 60, per: day, time_zone: Asia/Kolkata}"
    async with provider() as a, serving(config(a.base_url, budgets), tmp_path) as gateway:
        answers = [await send(gateway) for _ in range(3)]
        other = await send(gateway, "key-of-batch-000")
        lines = gateway.access_lines()

    assert [one.status_code for one in (*answers, other)] == [200, 200, 429, 200]
    error = answers[2].json()["error"]
    assert (error["code"], error["type"]) == ("budget_exceeded", "rate_limit_error")
    assert "the budget 'web-money' of 60 USD per day has 34 USD left" in error["message"]
    assert "this request may use 44 USD; lower max_tokens" in error["message"]
    assert "T00:00:00+05:30" in error["message"]
    assert 0 < int(answers[2].headers["retry-after"]) <= 86_400
    assert [line.budget for line in lines] == ["", "", "web-money", ""]
    assert lines[2].error == "budget_exceeded"
    assert len(a.requests) == 3


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_every_surface_refuses_in_its_own_envelope(path: str, tmp_path: Path) -> None:
    budgets = "  - {name: web-money, who: {key: web}, usd: 13, per: total}"
    async with provider() as a, serving(config(a.base_url, budgets), tmp_path) as gateway:
        await send(gateway, max_tokens=4)
        answer = await send(gateway, path=path, body=PATHS[path])
        mindie = await send(gateway, path="/infer_token", body=INFER)

    assert (answer.status_code, mindie.status_code) == (429, 429)
    assert "web-money" in answer.text
    assert "web-money" in mindie.text
    assert "retry-after" not in answer.headers
    assert answer.headers["x-should-retry"] == "false"


async def test_the_vendors_own_clients_read_the_refusal(tmp_path: Path) -> None:
    budgets = "  - {name: web-money, who: {key: web}, usd: 13}"
    async with provider() as a, serving(config(a.base_url, budgets), tmp_path) as gateway:
        await send(gateway, max_tokens=4)
        async with openai.AsyncOpenAI(
            api_key="key-of-web-00000", base_url=f"{gateway.url}/v1"
        ) as client:
            with pytest.raises(openai.RateLimitError) as caught:
                await client.chat.completions.create(
                    model="chat", messages=[{"role": "user", "content": "hi"}]
                )
        async with anthropic.AsyncAnthropic(
            api_key="key-of-web-00000", base_url=gateway.url
        ) as claude:
            with pytest.raises(anthropic.RateLimitError, match="web-money"):
                await claude.messages.create(
                    model="chat", max_tokens=5, messages=[{"role": "user", "content": "hi"}]
                )
        sent = [line for line in gateway.access_lines() if line.error]

    assert caught.value.code == "budget_exceeded"
    assert len(sent) == 2, "a client has retried what cannot succeed this month"


async def test_a_budget_of_tokens_needs_no_prices(tmp_path: Path) -> None:
    """Each request reserves 24 tokens and uses 10."""
    budgets = "  - {name: web-tokens, who: {key: web}, tokens: 50, per: week}"
    text = config("URL", budgets, prices="")
    async with provider() as a, serving(text.replace("URL", a.base_url), tmp_path) as gateway:
        answers = [await send(gateway) for _ in range(4)]

    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    message = answers[3].json()["error"]["message"]
    assert "of 50 tokens per week has 20 tokens left" in message


async def test_the_dearest_backend_that_may_answer_is_reserved(tmp_path: Path) -> None:
    """The fallback costs 440 USD at most, so no request is sent that the budget cannot pay."""
    prices = """prices:
  - {match: remote/m-1, input: 1, output: 1}
  - {match: remote/m-2, input: 10000000, output: 20000000}"""
    budgets = "  - {name: web-money, who: {key: web}, usd: 400}"
    async with (
        provider() as a,
        serving(config(a.base_url, budgets, SPARE, prices), tmp_path) as gateway,
    ):
        refused = await send(gateway)
        small = await send(gateway, max_tokens=10)

    assert refused.status_code == 429
    assert "may use 440 USD" in refused.json()["error"]["message"]
    assert small.status_code == 200


async def test_a_refusal_is_never_taken_for_the_providers(tmp_path: Path) -> None:
    budgets = "  - {name: chats, who: {any: true}, models: [chat], usd: 13}"
    async with provider() as a, serving(config(a.base_url, budgets, SPARE), tmp_path) as gateway:
        first = await send(gateway, max_tokens=4)
        refused = await send(gateway)
        spare = await send(gateway, model="spare")

    assert [one.status_code for one in (first, refused, spare)] == [200, 429, 200]
    assert [request.json["model"] for request in a.requests] == ["m-1", "m-2"]


async def test_failed_attempts_and_their_fallback_both_count(tmp_path: Path) -> None:
    """The first backend charges 13 USD for a broken answer, the fallback 13 for a good one."""
    budgets = "  - {name: web-money, who: {key: web}, usd: 60}"
    async with provider() as a, serving(config(a.base_url, budgets, SPARE), tmp_path) as gateway:

        async def breaks(request: Received, answer: Answer) -> None:
            if request.json["model"] == "m-1":
                await answer.json({"error": {"message": "down"}}, 503)
            else:
                await answer.chat()

        a.behaviour = breaks
        answers = [await send(gateway) for _ in range(3)]

    assert [one.status_code for one in answers] == [200, 200, 429]
    assert "34 USD left" in answers[2].json()["error"]["message"]


@pytest.mark.parametrize("path", sorted(PATHS))
@pytest.mark.parametrize(
    "budget",
    [
        "who: {key: web}, usd: 60",
        "who: {key: web}, tokens: 30, per: total",
        "who: {any: true}, each: key, usd: 60, per: month",
    ],
)
async def test_what_running_requests_have_reserved_is_not_spent(
    budget: str, path: str, tmp_path: Path
) -> None:
    """One request reserves 44 USD or 24 tokens, and uses 13 or 10: the second fits afterwards."""
    budgets = f"  - {{name: web-money, {budget}}}"
    long = PATHS[path] if "embeddings" not in path else {**PATHS[path], "input": "hi " * 25}
    async with provider() as a, serving(config(a.base_url, budgets), tmp_path) as gateway:
        ready, go = asyncio.Event(), asyncio.Event()

        async def waits(request: Received, answer: Answer) -> None:
            ready.set()
            await go.wait()
            await answers(request, answer)

        a.behaviour = waits
        running = asyncio.create_task(send(gateway))
        await ready.wait()
        reserved = [await send(gateway, path=path, body=long) for _ in range(2)]
        too_large = await send(gateway, max_tokens=100)
        go.set()
        first = await running
        await until_idle(gateway)
        a.behaviour = answers
        second = await send(gateway, max_tokens=4)

    for one in reserved:
        assert one.status_code == 429
        assert 1 <= int(one.headers["retry-after"]) <= 5
        assert "x-should-retry" not in one.headers
        assert "is reserved by running requests" in one.text
    assert "retry-after" not in too_large.headers
    assert too_large.headers["x-should-retry"] == "false"
    assert [one.status_code for one in (first, second)] == [200, 200]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_pays_what_is_recorded_and_leaves_nothing_reserved(
    stream: bool, tmp_path: Path
) -> None:
    budgets = "  - {name: web-money, who: {key: web}, usd: 50}"
    async with provider() as a, serving(config(a.base_url, budgets), tmp_path) as gateway:
        began = asyncio.Event()

        async def hangs(request: Received, answer: Answer) -> None:
            if stream:
                await answer.begin_stream()
                await answer.text("a")
            began.set()
            await answer.gone.wait()

        a.behaviour = hangs
        leaving = asyncio.create_task(send(gateway, stream=stream))
        await began.wait()
        await asyncio.sleep(0.05)
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        await until_idle(gateway)
        a.behaviour = says_hello
        cost = spent(gateway)
        fits = await send(gateway, max_tokens=(46 - int(cost)) // 2)
        refused = await send(gateway, max_tokens=22)

    assert cost == (6.0 if stream else 4.0)  # 4 of the prompt, and 2 for the piece that was sent
    assert (fits.status_code, refused.status_code) == (200, 429)
    assert f"has {37 - cost:g} USD left" in refused.json()["error"]["message"]


async def test_the_rest_goes_to_a_cheaper_model_and_a_header_says_so(tmp_path: Path) -> None:
    model = "  - {name: cheap, backends: [{provider: remote, model: m-2}]}\n"
    prices = """prices:
  - {match: remote/m-1, input: 1000000, output: 2000000}
  - {match: remote/m-2, input: 0, output: 0}"""
    budgets = "  - {name: web money, who: {key: web}, usd: 44, on_exceeded: {use_model: cheap}}"
    async with (
        provider() as a,
        serving(config(a.base_url, budgets, model, prices), tmp_path) as gateway,
    ):
        answers = [await send(gateway) for _ in range(3)]
        streamed = await send(gateway, stream=True)
        lines = gateway.access_lines()

    assert [one.status_code for one in (*answers, streamed)] == [200] * 4
    assert "x-gateway-budget" not in answers[0].headers
    for one in (*answers[1:], streamed):
        assert one.headers["x-gateway-budget"] == "web%20money"
        assert one.headers["x-gateway-budget-model"] == "cheap"
        assert one.headers["x-gateway-backend"] == "remote/m-2"
    assert [line.route for line in lines] == ["chat", "cheap", "cheap", "cheap"]
    assert [line.model for line in lines] == ["chat"] * 4
    assert [line.budget for line in lines] == ["", *["web money"] * 3]
    assert [request.json["model"] for request in a.requests] == ["m-1", "m-2", "m-2", "m-2"]


async def test_a_second_budget_refuses_what_the_first_sends_to_a_cheaper_model(
    tmp_path: Path,
) -> None:
    model = "  - {name: cheap, backends: [{provider: remote, model: m-2}]}\n"
    budgets = """
  - {name: soft, who: {key: web}, usd: 44, on_exceeded: {use_model: cheap}}
  - {name: hard, who: {any: true}, usd: 80}
"""
    async with provider() as a, serving(config(a.base_url, budgets, model), tmp_path) as gateway:
        answers = [await send(gateway) for _ in range(4)]

    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    assert "'hard'" in answers[3].json()["error"]["message"]
    assert [request.json["model"] for request in a.requests] == ["m-1", "m-2", "m-2"]


async def test_an_unknown_price_is_refused_or_counts_what_the_operator_says(
    tmp_path: Path,
) -> None:
    budgets = """
  - {name: strict, who: {key: web}, usd: 100}
  - {name: lax, who: {key: batch}, usd: 0.025, unknown_price: {count_usd: 0.01}}
"""
    prices = "prices: [{match: remote/other, input: 1, output: 1}]"
    async with (
        provider() as a,
        serving(config(a.base_url, budgets, prices=prices), tmp_path) as gateway,
    ):
        denied = await send(gateway)
        answers = [await send(gateway, "key-of-batch-000") for _ in range(3)]

    assert denied.status_code == 403
    assert denied.json()["error"]["code"] == "price_unknown"
    assert "the budget 'strict' needs the price of remote/m-1" in denied.text
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert "of 0.025 USD per month has 0.005 USD left" in answers[2].text


async def test_a_reload_changes_a_budget_and_keeps_what_was_spent(tmp_path: Path) -> None:
    """In one process without a store; with one, the records say what was spent."""
    budgets = "  - {{name: web-money, who: {{key: web}}, usd: {usd}}}"
    async with (
        provider() as a,
        serving(config(a.base_url, budgets.format(usd=44)), tmp_path) as gateway,
    ):
        before = [await send(gateway) for _ in range(2)]
        larger = read_config(config(a.base_url, budgets.format(usd=60)), source="c", env={})
        state = gateway.state
        state.use_runtime(Runtime(larger, run_dir=tmp_path, before=state.runtime))
        after = [await send(gateway) for _ in range(2)]

    assert [one.status_code for one in (*before, *after)] == [200, 429, 200, 429]
