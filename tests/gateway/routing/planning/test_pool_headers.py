"""`providers[].pool`: what an endpoint picker receives, and what it does not."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack

import httpx
import pytest

from strowger_gateway.gateway.console.explain.query import Query, explain_query
from tests.gateway.config.configs import faults_of_provider, warnings
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

FAIRNESS, OBJECTIVE = "x-gateway-inference-fairness-id", "x-gateway-inference-objective"
SESSION = "x-session-token"
HASH = re.compile(r"[0-9a-f]{32}")
CONFIG = """
providers:
  - name: fleet
    adapter: vllm
    base_url: {url}
    pool:
      session: session
      fairness: team
      objective: {{by: priority, names: {{1: interactive, 5: batch}}, otherwise: standard}}
  - name: headed
    adapter: vllm
    base_url: {url}
    pool:
      prefix: x-llm-d-inference
      session: header:x-conversation
      session_header: x-affinity
      fairness: api_key
      objective: {{by: "header:x-class", names: {{gold: interactive}}}}
  - {{name: plain, adapter: vllm, base_url: {url}}}
  - {{name: broken, adapter: vllm, base_url: {broken}, pool: {{fairness: api_key}}}}
models:
  - {{name: chat, backends: [{{provider: fleet, model: m}}]}}
  - {{name: urgent, overrides: {{priority: 1}}, backends: [{{provider: fleet, model: m}}]}}
  - {{name: headed, backends: [{{provider: headed, model: m}}]}}
  - {{name: plain, backends: [{{provider: plain, model: m}}]}}
  - name: failing
    policy: in_order
    retry: {{attempts: 2, backoff_s: 0.01}}
    backends: [{{provider: broken, model: m}}, {{provider: headed, model: m}}]
teams: [{{name: red}}, {{name: "Küche 7"}}]
auth:
  mode: keys
  keys:
    - {{name: ann, key: key-of-ann, team: red}}
    - {{name: bob, key: key-of-bob, team: "Küche 7"}}
    - {{name: cid, key: key-of-cid}}
"""


class Rig:
    """A gateway, and a model server that answers and keeps the header lines."""

    def __init__(self, up: Serving, upstream: Provider) -> None:
        self.up = up
        self.upstream = upstream

    async def sent(
        self,
        *,
        key: str = "ann",
        model: str = "chat",
        headers: Mapping[str, str] | None = None,
        **fields: object,
    ) -> dict[str, str]:
        """The headers of the request that reaches the model server, each of which came once."""
        body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], **fields}
        return await self.posted("/v1/chat/completions", body, key, headers)

    async def posted(
        self, path: str, body: Mapping[str, object], key: str, headers: Mapping[str, str] | None
    ) -> dict[str, str]:
        """See `sent`."""
        own = {"authorization": f"Bearer key-of-{key}", **(headers or {})}
        async with httpx.AsyncClient(timeout=60) as client:
            url = f"{self.up.url}{path}"
            raw = [(name.encode(), value.encode("latin-1")) for name, value in own.items()]
            answer = await client.post(url, json=body, headers=raw)
        assert answer.status_code == 200, answer.text
        received = self.upstream.requests[-1]
        names = [line.partition(":")[0].lower() for line in received.lines]
        assert len(set(names)) == len(names)
        assert all(line.isascii() and line.isprintable() for line in received.lines)
        return received.headers


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    async def breaks(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "down"}}, 500)

    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(provider())
        broken = await stack.enter_async_context(provider(breaks))
        text = CONFIG.format(url=upstream.base_url, broken=broken.base_url)
        up = await stack.enter_async_context(serving(text, tmp_path_factory.mktemp("pool")))
        yield Rig(up, upstream)


async def test_the_picker_learns_team_session_and_urgency(rig: Rig) -> None:
    sent = await rig.sent(headers={"x-session-id": "s-1"}, priority=5)

    assert (sent[FAIRNESS], sent[OBJECTIVE]) == ("red", "batch")
    assert HASH.fullmatch(sent[SESSION])


async def test_a_request_that_only_counts_tokens_has_the_same_headers(rig: Rig) -> None:
    async def counts(request: Received, answer: Answer) -> None:
        await answer.json({"count": 7, "max_model_len": 4096, "tokens": [0] * 7})

    session = {"x-session-id": "s-1"}
    chatted = await rig.sent(headers=session)
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}
    rig.upstream.behaviour = counts
    counted = await rig.posted("/v1/messages/count_tokens", body, "ann", session)
    rig.upstream.behaviour = answers

    assert rig.upstream.requests[-1].path.endswith("/tokenize")
    names = (FAIRNESS, OBJECTIVE, SESSION)
    assert [counted[name] for name in names] == [chatted[name] for name in names]


async def test_a_session_has_one_id_wherever_its_client_puts_it(rig: Rig) -> None:
    by_header = await rig.sent(headers={"x-session-id": "s-1"})
    by_cache_key = await rig.sent(prompt_cache_key="s-1")
    by_metadata = await rig.sent(metadata={"session_id": "s-1"})

    assert by_header[SESSION] == by_cache_key[SESSION] == by_metadata[SESSION]


async def test_sessions_of_two_callers_differ_even_under_one_id(rig: Rig) -> None:
    own = await rig.sent(headers={"x-session-id": "s-1"})
    other = await rig.sent(key="bob", headers={"x-session-id": "s-1"})

    assert own[SESSION] != other[SESSION]


async def test_a_name_that_a_header_cannot_carry_is_hashed(rig: Rig) -> None:
    sent = await rig.sent(key="bob")

    assert HASH.fullmatch(sent[FAIRNESS])


async def test_what_is_unknown_of_a_request_is_not_sent(rig: Rig) -> None:
    sent = await rig.sent(key="cid")

    assert not {FAIRNESS, SESSION} & sent.keys()
    assert sent[OBJECTIVE] == "standard"


async def test_the_priority_that_the_operator_sets_decides(rig: Rig) -> None:
    sent = await rig.sent(model="urgent", priority=5)

    assert sent[OBJECTIVE] == "interactive"


async def test_clients_cannot_write_the_headers_themselves(rig: Rig) -> None:
    forged: dict[str, str] = dict.fromkeys(
        (FAIRNESS, OBJECTIVE, SESSION, "x-llm-d-inference-fairness-id", "x-gateway-model-name"),
        "forged",
    )

    pooled = await rig.sent(key="cid", headers=forged)
    plain = await rig.sent(key="cid", model="plain", headers=forged)

    assert "forged" not in {*pooled.values(), *plain.values()}
    assert not {FAIRNESS, OBJECTIVE, SESSION} & plain.keys()


@pytest.mark.parametrize("value", ["a" * 4096, "tab\tbed", "caf\xe9", "a: b", "gold"])
async def test_no_value_of_a_clients_header_gets_through(rig: Rig, value: str) -> None:
    headers = {"x-conversation": value, "x-class": value}

    sent = await rig.sent(model="headed", headers=headers)

    assert value not in sent.values()
    assert HASH.fullmatch(sent["x-affinity"])
    assert sent.get("x-llm-d-inference-objective") == ("interactive" if value == "gold" else None)


async def test_each_attempt_has_the_headers_of_its_own_pool(rig: Rig) -> None:
    sent = await rig.sent(model="failing", headers={"x-class": "gold"})

    assert FAIRNESS not in sent
    assert sent["x-llm-d-inference-fairness-id"] == "ann"
    assert sent["x-llm-d-inference-objective"] == "interactive"


async def test_explain_shows_the_headers_that_would_be_sent(rig: Rig) -> None:
    sent = await rig.sent(headers={"x-session-id": "s-1"}, priority=5)
    query = Query(
        body=b'{"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "priority": 5}',
        key="ann",
        headers=((b"x-session-id", b"s-1"),),
    )

    found = explain_query(query, rig.up.state.runtime, 0.0).explanation

    expected = {name: sent[name] for name in (SESSION, FAIRNESS, OBJECTIVE)}
    assert found.candidates[0].headers == expected


FAULTS = {
    "{}": "providers[0].pool: sends nothing; give session, fairness or objective, or remove it",
    "{fairness: everyone}": "providers[0].pool.fairness: expected caller, api_key, team, user, "
    'session or header:NAME or null, found "everyone"',
    "{session: user, session_header: 'a b'}": "providers[0].pool.session_header: expected a "
    'header\'s name: up to 64 lower-case letters, digits, - and _, found "a b"',
    "{session: user, session_header: authorization}": "providers[0].pool.session_header: "
    '"authorization" has another meaning; name the picker\'s own header',
    "{fairness: user, session_header: x-s}": "providers[0].pool.session_header: has no effect "
    "without session; remove it",
    "{session: user, fairness: user, session_header: x-gateway-inference-fairness-id}": "providers"
    '[0].pool.session_header: "x-gateway-inference-fairness-id" is also sent by the pool itself',
    "{objective: {}}": "providers[0].pool.objective: is empty; give names, otherwise or both",
    "{objective: {names: {high: a}}}": "providers[0].pool.objective.names: by priority: expected "
    'keys from 1 to 5, found "high"',
    "{objective: {otherwise: Upper}}": "providers[0].pool.objective.otherwise: expected an "
    "InferenceObjective's name (up to 253 lower-case letters, digits, - and .) or null, found "
    '"Upper"',
    "{fairness: team}, headers: {X-Gateway-Inference-Fairness-ID: a}": "providers[0].pool.fairness"
    ": sends x-gateway-inference-fairness-id, which is also in headers; give one",
}


@pytest.mark.parametrize("pool", FAULTS)
def test_a_pool_that_cannot_be_meant_is_refused_with_the_field(pool: str) -> None:
    assert faults_of_provider(f"adapter: openai, pool: {pool}") == [FAULTS[pool]]


def test_a_pool_of_the_local_engine_is_refused() -> None:
    told = faults_of_provider("adapter: local, engine: {models: []}, pool: {fairness: team}")

    assert "providers[0].pool: has no effect with adapter local; remove it" in told


def test_names_of_keys_without_keys_are_a_warning() -> None:
    told = warnings(
        "providers: [{name: a, adapter: openai, pool: {fairness: team}}]\n"
        "models: [{name: chat, backends: [{provider: a, model: m}]}]\n"
    )

    assert "with auth.mode none no request has a key, so the header is never sent" in told[0]
