"""An account that a vendor refuses costs no attempt, and another one answers."""

import asyncio
import json
import logging
from collections import Counter
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from tests.gateway.routing.failures.fault_scenarios import Sees
from tests.gateway.routing.failures.fault_tasks import TASKS, client_sees
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

TEXT = [name for name, task in TASKS.items() if task.is_text]
CREDIT = (
    "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits."
)
DEAD: dict[str, tuple[int, dict[str, object]]] = {
    "key": (401, {"message": "no", "code": "invalid_api_key"}),
    "balance": (402, {"message": "Insufficient Balance"}),
    "key-limit": (403, {"message": "Key limit exceeded (total limit)."}),
    "model": (404, {"message": "The model `m` does not exist", "code": "model_not_found"}),
    "quota": (429, {"message": "no", "type": "insufficient_quota"}),
    "credit": (400, {"message": CREDIT, "type": "invalid_request_error"}),
}
"""What a provider answers, by its key."""
OTHERS: dict[str, tuple[int, dict[str, object]]] = {
    "boom": (500, {"message": "boom"}),
    "moderation": (403, {"message": "m requires moderation on x. Your input was flagged for y."}),
    "file": (404, {"message": "No such File object: file-1"}),
    "unknown": (404, {"message": "The model `x` does not exist", "code": "model_not_found"}),
}


def key_of(request: Received) -> str:
    return request.headers["authorization"].removeprefix("Bearer ").partition("#")[0]


async def behave(request: Received, answer: Answer) -> None:
    """As the provider's key says."""
    kind = key_of(request)
    if kind.startswith("late-"):
        kind = kind.removeprefix("late-")
        await asyncio.sleep(0.1)
    if kind == "inside" and request.json.get("stream"):
        await answer.begin_stream()
        await answer.event({"error": {"message": "no", "code": "insufficient_quota"}})
        await answer.end_stream()
    elif kind == "inside":
        await answer.json({"error": {"message": "no", "code": "insufficient_quota"}})
    elif (failure := {**DEAD, **OTHERS}.get(kind)) is not None:
        await answer.json({"error": failure[1]}, failure[0])
    else:
        await answers(request, answer)


def pool(url: str, *keys: str, more: str = "", model: str = "m", policy: str = "in_order") -> str:
    """A model `chat` with a provider per key, and what else the configuration has."""
    providers = "\n".join(
        f"  - {{name: p{place}, adapter: openai, base_url: {url}, api_key: '{key}#{place}'}}"
        for place, key in enumerate(keys)
    )
    backends = ", ".join(f"{{provider: p{place}, model: '{model}'}}" for place in range(len(keys)))
    return f"""
providers:
{providers}
models:
  - name: {"chat" if model != "*" else "'*'"}
    policy: {policy}
    retry: {{backoff_s: 0, max_backoff_s: 0.3}}
    backends: [{backends}]
{more}
"""


async def ask(gateway: Serving, task: str = "chat", model: str = "chat") -> httpx.Response:
    return await TASKS[task].ask(gateway.url, model)


def calls(remote: Provider) -> Counter[str]:
    return Counter(key_of(request) for request in remote.requests)


def set_aside(gateway: Serving) -> list[str]:
    """The backends that get no requests."""
    at = asyncio.get_running_loop().time()
    backends = gateway.state.runtime.backends
    return [name for name, one in backends.items() if not one.breaker.is_available(at)]


@pytest.mark.parametrize("task", TEXT)
@pytest.mark.parametrize("kind", [*DEAD, "inside"])
async def test_every_account_of_a_pool_is_asked_until_one_works(
    kind: str, task: str, tmp_path: Path
) -> None:
    async with provider(behave) as remote:
        config = pool(remote.base_url, *[kind] * 5, "good")
        async with serving(config, tmp_path) as gateway:
            found = [await ask(gateway, task) for _ in range(3)]
            aside = set_aside(gateway)

    for one in found:
        client_sees(TASKS[task], one, Sees(asked=(1, 0)))
    assert [one.headers["x-gateway-attempts"] for one in found] == ["6", "1", "1"]
    assert calls(remote) == {kind: 5, "good": 3}
    assert len(aside) == 5


@pytest.mark.parametrize("policy", ["weighted", "least_busy", "lowest_latency", "sticky"])
async def test_no_request_fails_although_four_of_five_accounts_are_dead(
    policy: str, tmp_path: Path
) -> None:
    async with provider(behave) as remote:
        config = pool(remote.base_url, "key", "quota", "good", "balance", "model", policy=policy)
        async with serving(config, tmp_path, seed=7) as gateway:
            found = [await ask(gateway) for _ in range(40)]

    assert {one.status_code for one in found} == {200}
    assert max(calls(remote)[kind] for kind in DEAD) <= 1


async def test_dead_accounts_before_a_fallback_model_cost_no_attempt_either(
    tmp_path: Path,
) -> None:
    more = """
    fallback: [other]
  - name: other
    policy: in_order
    backends: [{provider: p1, model: n}, {provider: p2, model: n}, {provider: p4, model: n}]
"""
    async with provider(behave) as remote:
        keys = ("key", "quota", "balance", "key-limit", "good")
        config = pool(remote.base_url, *keys, more=more).replace(
            ", {provider: p4, model: 'm'}", "", 1
        )
        async with serving(config, tmp_path) as gateway:
            found = await ask(gateway)

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, "p4/n")
    assert found.headers["x-gateway-attempts"] == "7"


@pytest.mark.parametrize("stream", ["chat", "chat-stream"])
async def test_a_real_failure_among_dead_accounts_costs_its_attempt(
    stream: str, tmp_path: Path
) -> None:
    async with provider(behave) as remote:
        keys = ("key", "boom", "quota", "boom", "balance", "boom", "good")
        async with serving(pool(remote.base_url, *keys), tmp_path) as gateway:
            found = await ask(gateway, stream)

    assert found.status_code == 502
    assert found.json()["error"]["code"] == "upstream_failed"
    assert calls(remote) == {"key": 1, "boom": 3, "quota": 1, "balance": 1}


@pytest.mark.parametrize(("first", "last"), [("boom", "key"), ("key", "boom")])
async def test_the_client_gets_the_failure_that_was_not_about_the_account(
    first: str, last: str, tmp_path: Path
) -> None:
    async with provider(behave) as remote:
        async with serving(pool(remote.base_url, first, last), tmp_path) as gateway:
            found = await ask(gateway)

    assert found.json()["error"]["code"] == "upstream_failed"


async def test_a_hedge_that_meets_a_dead_account_costs_no_attempt(tmp_path: Path) -> None:
    keys = ("late-key", "quota", "balance", "model", "late-good")
    more = "    hedge_after_s: 0.02"
    async with provider(behave) as remote:
        async with serving(pool(remote.base_url, *keys, more=more), tmp_path) as gateway:
            found = await ask(gateway, "chat-stream")

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, "p4/m")


async def test_tokens_are_counted_by_the_first_account_that_is_not_refused(
    tmp_path: Path,
) -> None:
    async def counts(request: Received, answer: Answer) -> None:
        if request.headers["x-api-key"] == "dead-account":
            error = {"type": "invalid_request_error", "message": CREDIT}
            await answer.json({"type": "error", "error": error}, 400)
        else:
            await answer.json({"input_tokens": 11})

    async with provider(counts) as remote:
        config = f"""
providers:
  - {{name: a, adapter: anthropic, base_url: {remote.origin}, api_key: dead-account}}
  - {{name: b, adapter: anthropic, base_url: {remote.origin}, api_key: good-account}}
models:
  - name: chat
    policy: in_order
    backends: [{{provider: a, model: m}}, {{provider: b, model: m}}]
"""
        async with serving(config, tmp_path) as gateway, httpx.AsyncClient(timeout=60) as client:
            body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
            url = f"{gateway.url}/v1/messages/count_tokens"
            found = [await client.post(url, json=body) for _ in range(2)]

    assert [one.json() for one in found] == [{"input_tokens": 11}] * 2
    assert [one.headers["x-gateway-attempts"] for one in found] == ["2", "2"]


async def test_a_copy_for_a_dead_account_is_sent_once_and_then_shed(tmp_path: Path) -> None:
    more = "    mirror: {backend: p1/m, share: 1}"
    async with provider(behave) as remote:
        config = pool(remote.base_url, "good", "key", more=more).replace(
            ", {provider: p1, model: 'm'}", "", 1
        )
        async with serving(config, tmp_path) as gateway:
            for _ in range(3):
                assert (await ask(gateway)).status_code == 200
                await gateway.state.side(MirrorsSide).copies.wait_idle()
            lines = gateway.mirror_lines()

    assert [one.outcome for one in lines] == ["upstream_refused", "shed", "shed"]


async def test_a_variant_whose_account_is_dead_is_answered_by_another_backend(
    tmp_path: Path,
) -> None:
    more = """
experiments:
  - name: e
    model: chat
    assign_by: request
    primary: thumbs_up
    variants: [{name: control, backend: p0/m, weight: 1}, {name: new, backend: p1/m, weight: 1}]
"""
    async with provider(behave) as remote:
        keys = ("key", "quota", "balance", "key-limit", "model", "good")
        async with serving(pool(remote.base_url, *keys, more=more), tmp_path) as gateway:
            found = [await ask(gateway) for _ in range(6)]

    assert {one.status_code for one in found} == {200}
    assert {one.headers["x-gateway-backend"] for one in found} == {"p5/m"}


@pytest.mark.parametrize("kind", ["moderation", "file"])
async def test_a_refusal_that_a_client_may_have_caused_sets_no_backend_aside(
    kind: str, tmp_path: Path
) -> None:
    async with provider(behave) as remote:
        async with serving(pool(remote.base_url, *[kind] * 2), tmp_path) as gateway:
            found = [await ask(gateway) for _ in range(30)]
            aside = set_aside(gateway)

    assert {one.status_code for one in found} == {424}
    assert calls(remote) == {kind: 60}
    assert aside == []


async def test_content_that_is_refused_costs_its_attempts(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with serving(pool(remote.base_url, *["moderation"] * 5), tmp_path) as gateway:
            await ask(gateway)

    assert calls(remote) == {"moderation": 3}


async def test_a_model_that_a_client_names_through_a_wildcard_sets_nothing_aside(
    tmp_path: Path,
) -> None:
    async with provider(behave) as remote:
        config = pool(remote.base_url, *["unknown"] * 5, model="*")
        async with serving(config, tmp_path) as gateway:
            found = [await ask(gateway, model="x") for _ in range(20)]
            (breaker,) = [one for _, one in gateway.state.runtime.backends["*: p0/*"].breakers]
            at = asyncio.get_running_loop().time()
            states = breaker.state(at), breaker.refused_for(at)

    assert {one.status_code for one in found} == {424}
    assert {one.headers["x-gateway-attempts"] for one in found} == {"3"}
    assert states == ("closed", 0.0)


async def test_a_dead_account_behind_a_wildcard_is_set_aside_for_that_model(
    tmp_path: Path,
) -> None:
    async with provider(behave) as remote:
        config = pool(remote.base_url, "key", "quota", "balance", "good", model="*")
        async with serving(config, tmp_path) as gateway:
            found = [await ask(gateway, model="x") for _ in range(4)]

    assert {one.status_code for one in found} == {200}
    assert calls(remote) == {"key": 1, "quota": 1, "balance": 1, "good": 4}


async def test_a_lone_account_is_asked_again_and_answers_as_soon_as_it_has_credit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with provider(behave) as remote:
        config = pool(remote.base_url, "balance")
        with caplog.at_level(logging.WARNING, "strowger.routing"):
            async with serving(config, tmp_path) as gateway:
                refused = [await ask(gateway) for _ in range(4)]
                remote.behaviour = answers
                topped_up = [await ask(gateway) for _ in range(3)]
                aside = set_aside(gateway)

    assert [one.status_code for one in refused] == [424] * 4
    assert {one.json()["error"]["code"] for one in refused} == {"upstream_refused"}
    assert [one.status_code for one in topped_up] == [200] * 3
    assert aside == []
    logged = [one for one in caplog.messages if "p0/m" in one]
    assert len(logged) == 1
    assert "Insufficient Balance" in logged[0]


async def test_a_dead_account_is_not_flooded_by_requests_without_another(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with serving(pool(remote.base_url, "key"), tmp_path) as gateway:
            await ask(gateway)
            found = await asyncio.gather(*(ask(gateway) for _ in range(30)))

    assert {one.status_code for one in found} <= {424, 503}
    assert sum(one.status_code == 503 for one in found) > 15
    refusal = next(one for one in found if one.status_code == 503)
    assert "its vendor refuses the account or the model" in refusal.text
    assert len(remote.requests) < 12


async def test_a_backend_that_serves_others_is_not_set_aside_for_one_missing_model(
    tmp_path: Path,
) -> None:
    """Some vendors answer a wrong kind of request as if they lacked the model."""

    async def lacks_embeddings(request: Received, answer: Answer) -> None:
        if "embeddings" in request.path:
            text = "models/m is not found for API version v1, or is not supported for embedContent"
            await answer.json({"error": {"message": text}}, 404)
        else:
            await answers(request, answer)

    async with provider(lacks_embeddings) as remote:
        async with serving(pool(remote.base_url, "one"), tmp_path) as gateway:
            served: list[int] = []
            for _ in range(5):
                served.append((await ask(gateway)).status_code)
                served.append((await ask(gateway, "embedding")).status_code)
            aside = set_aside(gateway)

    assert served == [200, 424] * 5
    assert aside == []


async def test_operators_see_that_an_account_is_refused(tmp_path: Path) -> None:
    admin = "auth: {admin_key: key-of-the-operator}"
    async with provider(behave) as remote:
        config = pool(remote.base_url, "key", "good", more=admin)
        async with serving(config, tmp_path) as gateway:
            await ask(gateway)
            headers = {"authorization": "Bearer key-of-the-operator"}
            async with httpx.AsyncClient(headers=headers, timeout=60) as client:
                backends = (await client.get(f"{gateway.url}/admin/backends")).text
                metrics = (await client.get(f"{gateway.url}/metrics")).text
            lines = gateway.access_lines()

    assert 30 < json.loads(backends)["models"][0]["backends"][0]["health"]["refused_for_s"] <= 60
    assert 'strowger_backend_available{backend="p0/m",model="chat"} 0.0' in metrics
    (line,) = [one for one in lines if one.route == "chat"]
    assert [one.outcome for one in line.attempts] == ["upstream_refused", "ok"]
