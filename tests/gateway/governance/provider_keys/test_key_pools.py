"""Several keys of one vendor: each rests by itself, and clients meet a limit only if all have."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.governance.provider_keys.quotas import Account, QuotaVendor
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

KEY = "key-of-the-operator"
CONFIG = """
auth: {{admin_key: key-of-the-operator}}
providers:
  - {{name: p, adapter: {adapter}, base_url: "{url}", api_keys: [{keys}]}}
  - {{name: other, adapter: openai, base_url: "{other}", api_key: key-of-the-other}}
models:
  - name: chat
    policy: in_order
    retry: {{attempts: 2}}
    backends: [{{provider: p, model: m}}, {{provider: other, model: n}}]
  - {{name: solo, retry: {{attempts: 1}}, backends: [{{provider: p, model: m}}]}}
  - {{name: wild-*, retry: {{attempts: 1}}, backends: [{{provider: p, model: "*"}}]}}
"""
PATHS = {
    "openai": "/v1",
    "anthropic": "",
    "gemini": "/v1beta",
    "cohere": "",
    "azure": "/openai/v1",
    "vllm": "/v1",
}


class Up(Struct, frozen=True, kw_only=True):
    """vendor: of the pool. other: of the next backend."""

    served: Serving
    client: httpx.AsyncClient
    vendor: QuotaVendor
    other: QuotaVendor

    async def ask(self, text: str = "hi", model: str = "solo", **fields: object) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
        return await self.client.post("/v1/chat/completions", json=body)

    @property
    def keys_of_attempts(self) -> list[list[tuple[str, str]]]:
        """Backend and key of each attempt, by request."""
        return [
            [(attempt.backend, attempt.provider_key) for attempt in line.attempts]
            for line in self.served.access_lines()
        ]


@asynccontextmanager
async def pooled(
    run_dir: Path,
    accounts: Mapping[str, Account],
    keys: str = "",
    adapter: str = "openai",
) -> AsyncGenerator[Up]:
    vendor, other = QuotaVendor(accounts), QuotaVendor({"key-of-the-other": Account()})
    async with provider(vendor) as remote, provider(other) as second:
        config = CONFIG.format(
            adapter=adapter,
            url=remote.origin + PATHS[adapter],
            other=second.base_url,
            keys=keys or ", ".join(accounts),
        )
        async with (
            serving(config, run_dir) as up,
            httpx.AsyncClient(base_url=up.url, timeout=60) as client,
        ):
            yield Up(served=up, client=client, vendor=vendor, other=other)


WAYS = [(adapter, stream) for adapter in PATHS for stream in (False, True)]
"""Cohere's stream is another stand-in's."""


@pytest.mark.parametrize(("adapter", "stream"), [one for one in WAYS if one != ("cohere", True)])
async def test_a_limited_key_rests_and_the_next_one_answers_at_once(
    adapter: str, stream: bool, tmp_path: Path
) -> None:
    accounts = {f"secret-{name}": Account(left=2) for name in "abc"}
    async with pooled(tmp_path, accounts, adapter=adapter) as up:
        found = [await up.ask(str(place), stream=stream) for place in range(6)]
        asked = len(up.vendor.asked)
        spent = await up.ask("more", stream=stream)
        sent = len(up.vendor.asked)

        assert [one.status_code for one in found] == [200] * 6
        assert up.vendor.used == dict.fromkeys(accounts, 2)
        # Each key was refused once at most, whatever came after that.
        assert max(Counter(up.vendor.asked).values()) <= 3
        assert spent.status_code == 429
        assert 25 <= int(spent.headers["retry-after"]) <= 30
        assert "all of its keys" in spent.text or sent > asked
        assert "secret-" not in spent.text
        names = {key for line in up.keys_of_attempts for _, key in line if key}
        assert names == {"key-1", "key-2", "key-3"}


async def test_a_retry_goes_to_another_key_before_another_backend(tmp_path: Path) -> None:
    accounts = {"secret-a": Account(left=0), "secret-b": Account()}
    async with pooled(tmp_path, accounts) as up:
        found = [await up.ask(str(place), model="chat") for place in range(8)]

        assert [one.status_code for one in found] == [200] * 8
        assert up.other.asked == []
        assert up.keys_of_attempts == [[("p/m", "key-2")]] * 8
        assert Counter(up.vendor.asked)["secret-a"] <= 1
        state = up.served.state.runtime.backends["chat: p/m"].breaker
        assert state.is_up(0.0)


async def test_when_all_keys_are_used_up_the_next_backend_answers(tmp_path: Path) -> None:
    accounts = {"secret-a": Account(left=0), "secret-b": Account(left=0)}
    async with pooled(tmp_path, accounts) as up:
        found = [await up.ask(str(place), model="chat") for place in range(3)]

        assert [one.status_code for one in found] == [200] * 3
        assert Counter(up.vendor.asked) == {"secret-a": 1, "secret-b": 1}
        assert len(up.other.asked) == 3


@pytest.mark.parametrize("trouble", [Account(revoked=True), Account(broke=True)])
async def test_a_refused_key_rests_for_a_minute_and_the_backend_does_not(
    trouble: Account, tmp_path: Path
) -> None:
    async with pooled(tmp_path, {"secret-a": trouble, "secret-b": Account()}) as up:
        found = [await up.ask(str(place)) for place in range(12)]
        backend = up.served.state.runtime.backends["solo: p/m"].breaker

        assert [one.status_code for one in found] == [200] * 12
        assert Counter(up.vendor.asked)["secret-a"] == 1
        assert backend.refused_for(0.0) == 0.0
        assert backend.failed == 0


async def test_when_all_keys_are_refused_that_is_what_the_client_learns_and_a_new_one_ends_it(
    tmp_path: Path,
) -> None:
    accounts = {"secret-a": Account(revoked=True), "secret-b": Account(revoked=True)}
    async with pooled(tmp_path, accounts) as up:
        refused = await up.ask()
        up.vendor.accounts["secret-b"].revoked = False
        later = [await up.ask(str(place)) for place in range(4)]

        assert refused.status_code == 424
        assert set(up.vendor.asked[:2]) == set(accounts)
        assert 200 in [one.status_code for one in later]
        assert later[-1].status_code == 200


async def test_a_key_without_a_model_is_not_asked_for_it_again(tmp_path: Path) -> None:
    accounts = {"secret-a": Account(models=("wild-a",)), "secret-b": Account()}
    async with pooled(tmp_path, accounts) as up:
        found = [await up.ask(str(place), model="wild-b") for place in range(8)]
        mine = [await up.ask(str(place), model="wild-a") for place in range(8)]

        assert [one.status_code for one in found + mine] == [200] * 16
        assert len(up.vendor.asked) <= 17
        assert up.vendor.used["secret-a"] > 0


async def test_a_model_that_no_key_may_use_costs_two_calls_however_many_keys_there_are(
    tmp_path: Path,
) -> None:
    accounts = {f"secret-{place}": Account(models=("other",)) for place in range(5)}
    async with pooled(tmp_path, accounts) as up:
        found = await up.ask(model="wild-none")

        assert found.status_code in (404, 424)
        assert len(up.vendor.asked) == 2


async def test_a_conversation_stays_at_its_key_while_that_is_well(tmp_path: Path) -> None:
    accounts = {f"secret-{name}": Account() for name in "abcd"}
    async with pooled(tmp_path, accounts) as up:
        for turn in range(3):
            for name in range(12):
                messages = [{"role": "user", "content": f"conversation {name}"}]
                for past in range(turn):
                    messages += [
                        {"role": "assistant", "content": f"answer {past}"},
                        {"role": "user", "content": f"and then {past}"},
                    ]
                body = {"model": "solo", "messages": messages}
                assert (await up.client.post("/v1/chat/completions", json=body)).status_code == 200

        keys: dict[bytes, set[str]] = {}
        for key, body_sent in up.vendor.bodies:
            name_sent = body_sent.partition(b"conversation ")[2].partition(b'"')[0]
            keys.setdefault(name_sent, set()).add(key)
        assert len(keys) == 12
        assert all(len(one) == 1 for one in keys.values())
        assert len({key for one in keys.values() for key in one}) >= 3


async def test_a_key_gets_no_more_than_its_own_limit_and_weight(tmp_path: Path) -> None:
    accounts = {"secret-a": Account(), "secret-b": Account()}
    keys = "{key: secret-a, name: big, weight: 3, requests_per_minute: 6}, secret-b"
    async with pooled(tmp_path, accounts, keys) as up:
        body = {"model": "solo", "input": "hi"}
        found = [await up.client.post("/v1/embeddings", json=body) for _ in range(8)]
        first = up.vendor.used.copy()
        more = [await up.client.post("/v1/embeddings", json=body) for _ in range(8)]

        assert [one.status_code for one in found + more] == [200] * 16
        assert first == {"secret-a": 6, "secret-b": 2}
        assert up.vendor.used["secret-a"] == 6


async def test_tokens_of_answers_count_against_a_keys_limit(tmp_path: Path) -> None:
    accounts = {"secret-a": Account()}
    async with pooled(tmp_path, accounts, "{key: secret-a, tokens_per_minute: 25}") as up:
        found: list[int] = []
        for place in range(4):
            found.append((await up.ask(str(place))).status_code)
            up.served.state.log.flush()

        # 10 tokens each: the third takes it beyond the limit, and the vendor is not asked again.
        assert found == [200, 200, 200, 429]
        assert len(up.vendor.asked) == 3


async def test_many_at_once_lose_nothing_and_are_spread(tmp_path: Path) -> None:
    accounts = {f"secret-{name}": Account(left=20, retry_after="") for name in "abc"}
    async with pooled(tmp_path, accounts) as up:
        found = await asyncio.gather(*(up.ask(f"{place}") for place in range(50)))

        assert [one.status_code for one in found] == [200] * 50
        assert sum(up.vendor.used.values()) == 50
        assert min(up.vendor.used.values()) >= 10


async def test_keys_are_in_metrics_by_name_and_never_by_secret(tmp_path: Path) -> None:
    accounts = {"secret-a": Account(left=1), "secret-b": Account()}
    async with pooled(tmp_path, accounts, "{key: secret-a, name: red}, {key: secret-b}") as up:
        for place in range(6):
            await up.ask(str(place))
        headers = {"authorization": f"Bearer {KEY}"}
        metrics = (await up.client.get("/metrics", headers=headers)).text
        listed = (await up.client.get("/admin/requests", headers=headers)).text
        keys = (await up.client.get("/admin/provider-keys", headers=headers)).json()["keys"]

        assert 'strowger_provider_key_calls_total{key="key-2",outcome="ok",provider="p"}' in metrics
        assert (
            'strowger_provider_key_calls_total{key="red",outcome="rate_limit_exceeded"' in metrics
        )
        assert 'strowger_provider_key_available{key="red",provider="p"} 0.0' in metrics
        assert '"provider_key":"red"' in listed
        assert "secret-" not in metrics + listed + str(keys)
        assert [(one["name"], one["state"]) for one in keys] == [
            ("red", "rate-limited"),
            ("key-2", "in use"),
        ]


async def test_a_reload_rotates_a_key_and_the_others_go_on(tmp_path: Path) -> None:
    from strowger_gateway.gateway.assembly.runtime import Runtime
    from strowger_gateway.gateway.config.load import read_config

    accounts = {"secret-a": Account(left=0), "secret-b": Account(), "secret-c": Account()}
    async with pooled(
        tmp_path, accounts, "{key: secret-a, name: a}, {key: secret-b, name: b}"
    ) as up:
        for place in range(4):
            assert (await up.ask(str(place))).status_code == 200
        state = up.served.state
        text = state.runtime.config.written.text.replace("secret-b", "secret-c")
        config = read_config(text, source="config.yaml", env={})
        state.generations.replace(Runtime(config, run_dir=tmp_path, before=state.runtime))
        before = Counter(up.vendor.asked)
        found = [await up.ask(str(place)) for place in range(8)]

        assert [one.status_code for one in found] == [200] * 8
        asked = Counter(up.vendor.asked) - before
        assert asked == {"secret-c": 8}  # `a` still rests
