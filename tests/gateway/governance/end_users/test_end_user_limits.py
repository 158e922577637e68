"""Limits of each end user at the wire: who is held apart, by what, and what shares an account."""

from pathlib import Path

import anthropic
import httpx
import pytest

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.limits.metrics import LimitUseCollector
from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

AUTH = """
auth:
  mode: keys
  metrics: open
  keys:
    - {name: web, key: key-of-web-00000}
    - {name: batch, key: key-of-batch-000}
"""
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20}


def config(base_url: str, limits: str, more: str = "") -> str:
    return one_model(base_url, f"{AUTH}\n{more}\nlimits:\n{limits}")


def with_use(gateway: Gateway) -> None:
    """Show the use of limits in its metrics."""
    gateway.log.metrics.registry.register(
        LimitUseCollector(gateway.side(LimitsSide).limits.accounts)
    )


async def metrics_of(gateway: Serving) -> str:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return (await client.get("/metrics")).text


class Client:
    """A client of a gateway. key: the name of its key."""

    def __init__(self, gateway: Serving, key: str = "web") -> None:
        secret = {"web": "key-of-web-00000", "batch": "key-of-batch-000"}[key]
        headers = {"authorization": f"Bearer {secret}"}
        self._http = httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def send(
        self, headers: dict[str, str] | None = None, path: str = "chat/completions", **more: object
    ) -> httpx.Response:
        return await self._http.post(f"/v1/{path}", json={**HELLO, **more}, headers=headers or {})


async def test_each_end_user_of_a_key_has_the_whole_limit(tmp_path: Path) -> None:
    limits = "  - {name: per-person, who: {key: web}, each: end_user, requests: 2}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        async with Client(gateway) as web, Client(gateway, "batch") as batch:
            anns = [await web.send(user="ann") for _ in range(3)]
            bens = [await web.send(user="ben") for _ in range(2)]
            others = [await batch.send(user="ann") for _ in range(3)]
        metrics = await metrics_of(gateway)

    assert [one.status_code for one in anns] == [200, 200, 429]
    assert "'per-person' allows 2 requests per minute" in anns[2].json()["error"]["message"]
    assert anns[2].json()["error"]["code"] == "limit_exceeded"
    assert 50 <= int(anns[2].headers["retry-after"]) <= 60
    remaining = [one.headers["x-ratelimit-remaining-requests"] for one in (*anns, *bens)]
    assert remaining == ["1", "0", "0", "1", "0"]
    assert [one.status_code for one in (*bens, *others)] == [200] * 5
    assert "x-ratelimit-limit-requests" not in others[0].headers
    assert "strowger_end_users 2.0" in metrics


async def test_keys_do_not_share_end_users_but_those_of_a_team_do(tmp_path: Path) -> None:
    limits = (
        "  - {name: of-key, who: {any: true}, each: end_user, models: [chat], requests: 1}\n"
        "  - {name: of-team, who: {team: t}, each: end_user, tokens: 40}"
    )
    text = config("{url}", limits, "teams: [{name: t}]").replace(
        "web-00000}", "web-00000, team: t}"
    )
    text = text.replace("batch-000}", "batch-000, team: t}")
    async with provider() as a:
        async with serving(text.replace("{url}", a.base_url), tmp_path) as gateway:
            async with Client(gateway) as web, Client(gateway, "batch") as batch:
                answers = [
                    await web.send(user="ann"),
                    await batch.send(user="ann"),
                    await batch.send(user="ann"),
                    await batch.send(user="ben"),
                ]

    assert [one.status_code for one in answers] == [200, 200, 429, 200]
    assert "'of-key'" in answers[2].text
    remaining = [one.headers["x-ratelimit-remaining-tokens"] for one in answers]
    assert remaining == ["16", "6", "20", "16"]


async def test_the_first_source_that_a_request_has_names_its_end_user(tmp_path: Path) -> None:
    limits = "  - {name: per-person, who: {any: true}, each: end_user, requests: 1}"
    more = "end_users: {sources: [header:X-OpenWebUI-User-Id, safety_identifier, user]}"
    async with provider() as a, serving(config(a.base_url, limits, more), tmp_path) as gateway:
        async with Client(gateway) as web:
            first = [
                await web.send({"x-openwebui-user-id": "a"}, user="b"),
                await web.send(safety_identifier="b", user="c"),
                await web.send(user="c"),
            ]
            answers = [
                await web.send({"x-openwebui-user-id": "c"}),
                await web.send(safety_identifier="a"),
                await web.send(path="responses", input="hi", safety_identifier="b"),
                await web.send(path="embeddings", input="hi", user="d"),
                await web.send(path="embeddings", input="hi", user="d"),
                await web.send(safety_identifier=None, user="e"),
            ]
            wrong = await web.send(safety_identifier=7)
        async with anthropic.AsyncAnthropic(
            api_key="key-of-web-00000", base_url=gateway.url, max_retries=0
        ) as claude:
            for user, refused in (("f", False), ("f", True), ("a", True)):
                try:
                    await claude.messages.create(
                        model="chat",
                        max_tokens=5,
                        messages=[{"role": "user", "content": "hi"}],
                        metadata={"user_id": user},
                    )
                except anthropic.RateLimitError:
                    assert refused
                else:
                    assert not refused

    assert [one.status_code for one in first] == [200] * 3
    assert [one.status_code for one in answers] == [429, 429, 429, 200, 429, 200]
    assert wrong.status_code == 400
    assert wrong.json()["error"]["param"] == "safety_identifier"


async def test_requests_without_an_end_user_share_an_account_of_their_key(tmp_path: Path) -> None:
    limits = "  - {name: per-person, who: {any: true}, each: end_user, requests: 1}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        async with Client(gateway) as web, Client(gateway, "batch") as batch:
            answers = [await web.send(), await web.send(user=""), await batch.send()]
            answers.append(await web.send(user="none"))
        metrics = await metrics_of(gateway)

    assert [one.status_code for one in answers] == [200, 429, 200, 200]
    assert 'strowger_end_user_shared_requests_total{reason="missing"} 3.0' in metrics


async def test_an_end_user_can_be_required_where_a_rule_needs_one(tmp_path: Path) -> None:
    limits = "  - {name: per-person, who: {key: web}, each: end_user, requests: 1}"
    more = "end_users: {missing: refuse, sources: [header:x-user, user]}"
    async with provider() as a, serving(config(a.base_url, limits, more), tmp_path) as gateway:
        async with Client(gateway) as web, Client(gateway, "batch") as batch:
            refused, named, other = await web.send(), await web.send(user="a"), await batch.send()
            long = await web.send(user="a" * 513)
            long_header = await web.send({"x-user": "a" * 513})

    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["param"] == "user"
    assert "the header x-user or the field user" in error["message"]
    assert (named.status_code, other.status_code) == (200, 200)
    assert (long.status_code, long.json()["error"]["param"]) == (400, "user")
    assert "512" in long.json()["error"]["message"]
    assert long_header.status_code == 400
    assert "header x-user" in long_header.json()["error"]["message"]


async def test_end_users_beyond_the_bound_share_one_account_and_are_counted(tmp_path: Path) -> None:
    limits = "  - {name: per-person, who: {any: true}, each: end_user, requests: 1, per: hour}"
    text = config("{url}", limits, "end_users: {max_per_key: 2}")
    async with (
        provider() as a,
        serving(text.replace("{url}", a.base_url), tmp_path, equip=with_use) as gateway,
    ):
        async with Client(gateway) as web, Client(gateway, "batch") as batch:
            answers = [await web.send(user=name) for name in ("a", "b", "c", "d", "a")]
            other = await batch.send(user="d")
        metrics = await metrics_of(gateway)

    assert [one.status_code for one in answers] == [200, 200, 200, 429, 429]
    assert other.status_code == 200
    assert 'strowger_end_user_shared_requests_total{reason="full"} 2.0' in metrics
    assert 'subject="web/others"' in metrics
    assert "strowger_end_users 3.0" in metrics
