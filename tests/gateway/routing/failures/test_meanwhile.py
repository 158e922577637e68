"""A request under way uses what other requests learn about a backend."""

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

MODELS = {
    "next": ("slow-401", "rests"),
    "again": ("slow-500-wait-or-rests",),
    "patient": ("500-wait",),
    "small": ("too-small", "rests-as-well"),
}

WAIT_S = 60
"""The retry-after of a backend: too long for a request that waits for it."""


async def behave(request: Received, answer: Answer) -> None:
    """Behave as the model's name says; answer 429 to requests with `user: scout`."""
    kind = str(request.json["model"])
    scout = request.json.get("user") == "scout"
    if "slow" in kind and not scout:
        await asyncio.sleep(0.15)
    if "rests" in kind and scout:
        await answer.json({"error": {"message": "later"}}, 429, {"retry-after": "900"})
    elif "small" in kind:
        error = {"message": "too long", "code": "context_length_exceeded", "param": "messages"}
        await answer.json({"error": error}, 400)
    elif "401" in kind:
        await answer.json({"error": {"message": "who?"}}, 401)
    elif "500" in kind:
        await answer.json({"error": {"message": "boom"}}, 500, {"retry-after": str(WAIT_S)})
    else:
        await answers(request, answer)


def config(url: str) -> str:
    """A scout is sent straight to a model's last backend."""
    lines = [
        "providers:",
        f"  - {{name: a, adapter: openai, base_url: {url}, api_key: k}}",
        f"  - {{name: b, adapter: openai, base_url: {url}, api_key: k}}",
        "models:",
    ]
    for name, kinds in MODELS.items():
        places = list(zip("ab", kinds, strict=False))
        backends = ", ".join(f"{{provider: {owner}, model: {kind}}}" for owner, kind in places)
        last = "/".join(places[-1])
        lines += [
            f"  - name: {name}",
            "    policy: in_order",
            f"    deadline_s: {WAIT_S - 10 if name == 'patient' else 600}",
            "    retry: {backoff_s: 0.01, max_backoff_s: 300}",
            "    breaker: {max_retry_after_s: 900}",
            f"    backends: [{backends}]",
            f"    when: [{{header: {{x-scout: 'yes'}}, backends: [{last}]}}]",
        ]
    lines += [
        "    fallback_by_error: [{codes: [context_length_exceeded], models: [longer]}]",
        "  - {name: longer, backends: [{provider: b, model: rests-as-well}],",
        "     breaker: {max_retry_after_s: 900}}",
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[tuple[Serving, Provider], None]:
    async with provider(behave) as remote:
        async with serving(config(remote.base_url), tmp_path_factory.mktemp("run")) as running:
            yield running, remote


async def ask(url: str, model: str, *, scout: bool = False) -> httpx.Response:
    """Return the answer, which must come sooner than the retry-after ends."""
    messages = [{"role": "user", "content": "hi"}]
    body = {"model": model, "messages": messages, **({"user": "scout"} if scout else {})}
    headers = {"x-scout": "yes"} if scout else {}
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_S / 2, headers=headers) as client:
        return await client.post("/v1/chat/completions", json=body)


async def beside_a_scout(gateway: Serving, model: str) -> httpx.Response:
    """Return the answer to a request in flight while another gets a longer retry-after."""
    under_way = asyncio.create_task(ask(gateway.url, model))
    await asyncio.sleep(0.05)
    scout = await ask(gateway.url, model, scout=True)
    assert scout.status_code == 429
    return await under_way


async def test_the_next_backend_is_not_tried_while_it_cools_down(
    gateway: tuple[Serving, Provider],
) -> None:
    answer = await beside_a_scout(gateway[0], "next")

    assert answer.json()["error"]["code"] == "upstream_refused"
    assert answer.headers["x-gateway-attempts"] == "1"
    assert sum(one.json["model"] == "rests" for one in gateway[1].requests) == 1


async def test_a_model_for_certain_errors_is_not_tried_while_it_cools_down(
    gateway: tuple[Serving, Provider],
) -> None:
    scout = await ask(gateway[0].url, "longer", scout=True)
    answer = await ask(gateway[0].url, "small")

    assert scout.status_code == 429
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert sum(one.json["model"] == "rests-as-well" for one in gateway[1].requests) == 1


async def test_no_request_waits_for_a_backoff_that_ends_within_a_cooldown(
    gateway: tuple[Serving, Provider],
) -> None:
    answer = await beside_a_scout(gateway[0], "again")

    assert answer.json()["error"]["code"] == "upstream_failed"
    assert answer.headers["x-gateway-attempts"] == "1"


async def test_no_request_waits_for_a_backoff_that_ends_after_the_deadline(
    gateway: tuple[Serving, Provider],
) -> None:
    answer = await ask(gateway[0].url, "patient")

    assert answer.json()["error"]["code"] == "upstream_failed"
    assert answer.headers["x-gateway-attempts"] == "1"
