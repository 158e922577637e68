"""Each model name of a wildcard backend has its own circuit and cooldown."""

import time
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.resilience.breaker_per_model import (
    KEPT,
    MOST,
    NAMED,
    Breakers,
    bound,
)
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers: [{{name: p, adapter: openai, base_url: {url}, api_key: k}}]
models:
  - name: "any/*"
    breaker: {{min_requests: 2, cooldown_s: 60}}
    retry: {{attempts: 1}}
    backends: [{{provider: p, model: "*"}}]
"""


async def ask(gateway: Serving, model: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return (await client.post("/v1/chat/completions", json=body)).status_code


@pytest.mark.parametrize(
    "asked",
    ["60", "1e20", "nan", "inf", "-5", "Wed, 01 Jan 2200 00:00:00 GMT", "never"],
)
async def test_a_429_cools_down_only_the_model_name_it_was_for(asked: str, tmp_path: Path) -> None:
    async def busy(request: Received, answer: Answer) -> None:
        if request.json["model"] == "any/busy":
            headers = {"retry-after": asked, "date": formatdate(time.time(), usegmt=True)}
            await answer.json({"error": {"message": "later"}}, 429, headers)
        else:
            await answers(request, answer)

    async with (
        provider(busy) as a,
        serving(CONFIG.format(url=a.base_url), tmp_path) as gateway,
    ):
        first = await ask(gateway, "any/busy")
        others = [await ask(gateway, f"any/{name}") for name in ("one", "two")]
        (backend,) = gateway.state.runtime.backends.values()
        known = backend.breakers.get("any/busy")
        cooldown = 0.0 if known is None else known.cooldown_left(time.monotonic())

    assert first == 429
    assert others == [200, 200]
    assert cooldown <= 300


async def test_a_model_name_that_fails_opens_only_its_own_circuit(tmp_path: Path) -> None:
    """A client that asks for a model that fails cannot divert the traffic of others."""

    async def unknown(request: Received, answer: Answer) -> None:
        if "made-up" in str(request.json["model"]):
            await answer.json({"error": {"message": "no such model"}}, 500)
        else:
            await answers(request, answer)

    async with (
        provider(unknown) as a,
        serving(CONFIG.format(url=a.base_url), tmp_path) as gateway,
    ):
        made_up = [await ask(gateway, "any/made-up") for _ in range(6)]
        real = [await ask(gateway, "any/real") for _ in range(3)]
        sent = [str(one.json["model"]) for one in a.requests]
        (backend,) = gateway.state.runtime.backends.values()
        states = {name: one.open_until is not None for name, one in backend.breakers}

    assert set(made_up) <= {502, 503}
    assert real == [200] * 3
    assert sent.count("any/real") == 3
    assert states == {"any/made-up": True, "any/real": False}


async def test_a_name_that_matches_a_wildcard_is_a_model_on_every_surface(tmp_path: Path) -> None:
    """A name with a line break is treated like any other."""
    paths = ("/v1/models/{}", "/api/2.0/serving-endpoints/{}", "/v2/models/{}")
    async with (
        serving(CONFIG.format(url="http://127.0.0.1:9/v1"), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        found = {
            name: [(await client.get(path.format(name))).status_code for path in paths]
            for name in ("any/one", "any/*", "other", "a%0Ab")
        }
        model = (await client.get("/v1/models/any/one")).json()
        listed = (await client.get("/v1/models")).json()["data"]
        text = {"text_input": "x", "max_tokens": 1}
        broken = [
            await client.post(f"/v2/models/{name}/generate", json=text)
            for name in ("a%0Ab", "a%0Ab/versions/1")
        ]

    assert found["any/one"] == [200, 200, 200]
    assert found["any/*"][:2] == [404, 404]
    assert found["other"] == found["a%0Ab"] == [404, 404, 404]
    assert (model["id"], model["object"]) == ("any/one", "model")
    assert listed == []
    assert [answer.status_code for answer in broken] == [404, 404]
    assert "model 'a\\nb' not found" in broken[0].json()["error"]


def test_names_that_clients_choose_are_kept_up_to_a_limit() -> None:
    breakers = Breakers(BreakerRule())
    first = breakers.of("0")
    for name in range(1, KEPT):
        breakers.of(str(name))
    kept = breakers.of("0")
    breakers.of("new")
    states = {"m: p/x": 0, **{f"m: p/*{NAMED}{name}": name for name in range(MOST + 9)}}
    bound(states)

    assert kept is first
    assert breakers.get("1") is None
    assert len([*breakers]) == KEPT
    assert len(states) == MOST
    assert "m: p/x" in states
