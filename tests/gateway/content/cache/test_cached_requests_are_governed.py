"""What else applies to cached requests: guardrails, limits, budgets, experiments, records."""

from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.content.cache.part import CacheSide
from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.governance.budgets.process_side import BudgetsSide
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow
from tests.gateway.content.cache.asking import ASKS, Json, ask, shown, text_of
from tests.gateway.content.stored_responses.archives import archived
from tests.gateway.experiments.mirror.test_mirror import Rows
from tests.gateway.observability.otlp.fake_collector import otlp_collector, values
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("within_one_period")]

CACHE = "cache: {}\n"
KEY = "AKIA" + "Q3" * 8
SECRETS = "guardrails: [{{name: keys, use: secrets, mode: {mode}, where: output}}]\n"


async def gives_a_key_away(request: Received, answer: Answer) -> None:
    if request.json.get("stream"):
        await answer.stream("the key is ", KEY[:7], KEY[7:])
    else:
        await answer.chat(f"the key is {KEY}")


def reload(gateway: Serving, text: str, run_dir: Path) -> Runtime:
    """Put a changed configuration in force. Return it, to be closed."""
    settings = read_config(text, source="config.yaml", env={})
    later = Runtime(settings, run_dir=run_dir, before=gateway.state.runtime)
    gateway.state.use_runtime(later)
    return later


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["mask", "monitor"])
async def test_an_answer_in_which_a_guardrail_finds_something_is_not_kept(
    mode: str, stream: bool, tmp_path: Path
) -> None:
    text = CACHE + SECRETS.format(mode=mode)
    async with (
        provider(gives_a_key_away) as backend,
        serving(one_model(backend.base_url, text), tmp_path) as gateway,
    ):
        for _ in range(2):
            answer = await ask(gateway, {"stream": stream})
            assert shown(answer) == "miss"
            assert (KEY in text_of(answer)) is (mode == "monitor")
        assert len(backend.requests) == 2
        cache = gateway.state.side(CacheSide).cache
        assert cache is not None
        assert cache.size().entries == 0, "the text is nowhere"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_blocked_answer_is_blocked_again(stream: bool, tmp_path: Path) -> None:
    text = CACHE + SECRETS.format(mode="block")
    async with (
        provider(gives_a_key_away) as backend,
        serving(one_model(backend.base_url, text), tmp_path) as gateway,
    ):
        for _ in range(2):
            answer = await ask(gateway, {"stream": stream})
            assert KEY not in answer.text
            assert "'keys' blocked the answer" in answer.text
        assert len(backend.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_new_guardrails_examine_what_was_kept_before_them(
    stream: bool, tmp_path: Path
) -> None:
    async with provider(gives_a_key_away) as backend:
        before = one_model(backend.base_url, CACHE)
        after = one_model(backend.base_url, CACHE + SECRETS.format(mode="mask"))
        async with serving(before, tmp_path) as gateway:
            assert KEY in text_of(await ask(gateway, {"stream": stream}))
            assert shown(await ask(gateway, {"stream": stream})) == "hit"
            later = reload(gateway, after, tmp_path)
            masked = await ask(gateway, {"stream": stream})
            assert text_of(masked).startswith("the key is ")
            assert KEY not in masked.text
            (line,) = [one for one in gateway.access_lines() if one.guardrails]
            assert line.guardrails == ("keys/aws_access_key_id:mask",)
            await later.close()


async def test_a_guarded_request_is_cached_as_its_backend_got_it(tmp_path: Path) -> None:
    rail = "guardrails: [{name: words, use: patterns, where: output, settings: {words: [never]}}]"
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, f"{CACHE}{rail}"), tmp_path) as gateway,
    ):
        for stream in (False, True):
            found = [await ask(gateway, {"stream": stream}) for _ in range(2)]
            assert [shown(one) for one in found] == ["miss", "hit"]
            assert {text_of(one) for one in found} == {"hello"}


async def test_a_reload_that_changes_the_model_finds_nothing_of_before(tmp_path: Path) -> None:
    async with provider() as backend:
        text = one_model(backend.base_url, CACHE)
        async with serving(text, tmp_path) as gateway:
            assert [shown(await ask(gateway)) for _ in range(2)] == ["miss", "hit"]
            changes = [
                (text.replace("cache: {}", "cache: {ttl_s: 9}"), "hit"),
                (text.replace("model: m-1", "model: m-2"), "miss"),
                (text.replace("backoff_s: 0.01", "backoff_s: 0.02"), "miss"),
                (text.replace("sk-secret-of", "sk-other-of"), "miss"),
                (text, "hit"),
            ]
            later: list[Runtime] = []
            for changed, expected in changes:
                later.append(reload(gateway, changed, tmp_path))
                assert shown(await ask(gateway)) == expected, changed
            for one in later:
                await one.close()


EXPERIMENT = """
experiments:
  - name: trial
    model: chat
    primary: thumbs_up
    variants:
      - {name: control, backend: remote/m-1, weight: 1}
      - {name: treatment, backend: remote/m-2, weight: 1}
"""


async def test_experiments_and_mirrors_pass_the_cache_by(tmp_path: Path) -> None:
    mirrored = "    mirror: {backend: remote/m-2, share: 1}\n"
    arms = "    backends: [{provider: remote, model: m-1}, {provider: remote, model: m-2}]"
    async with provider() as backend:
        trial = one_model(backend.base_url, CACHE + EXPERIMENT).replace(
            "    backends: [{provider: remote, model: m-1}]", arms
        )
        for text in (trial, one_model(backend.base_url, CACHE, mirrored)):
            async with serving(text, tmp_path) as gateway:
                assert [shown(await ask(gateway)) for _ in range(2)] == ["bypass", "bypass"]
                await gateway.state.side(MirrorsSide).copies.wait_idle()
                cache = gateway.state.side(CacheSide).cache
                assert cache is not None
                assert cache.size().entries == 0


async def test_a_when_rule_that_chooses_the_backend_separates_answers(tmp_path: Path) -> None:
    rule = "    when: [{header: {x-tier: gold}, backends: [remote/m-gold]}]\n"
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE, rule), tmp_path) as gateway,
    ):
        found = [
            shown(await ask(gateway, headers={**ASKS, **more}))
            for more in ({}, {"x-tier": "gold"}, {}, {"x-tier": "gold"}, {"x-tier": "tin"})
        ]
        assert found == ["miss", "miss", "hit", "hit", "hit"]


PRICED = """
auth: {mode: keys, keys: [{name: web, key: key-of-web-00000}]}
prices: [{match: remote/*, input: 1000000, output: 2000000}]
cache: {}
"""
WEB = {**ASKS, "authorization": "Bearer key-of-web-00000"}


async def test_a_hit_costs_nothing_and_is_recorded_as_one(tmp_path: Path) -> None:
    records = Rows()
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, PRICED), tmp_path, recorder=records) as gateway,
    ):
        for stream in (False, True):
            for _ in range(2):
                await ask(gateway, {"stream": stream}, headers=WEB)
        lines = gateway.access_lines()
        read = gateway.state.log.metrics.registry.get_sample_value
        cost = {"model": "chat", "backend": "remote/m-1", "role": "served"}
        assert read("strowger_cost_usd_total", cost) == 26, "of the two misses"
        for outcome in ("hit", "miss"):
            labels = {"model": "chat", "outcome": outcome}
            assert read("strowger_cache_requests_total", labels) == 2

    assert [one.cache for one in lines] == ["miss", "hit", "miss", "hit"]
    for line in lines[1::2]:
        assert (line.backend, line.attempts, line.cost_usd) == ("remote/m-1", (), 0.0)
        assert (line.prompt_tokens, line.completion_tokens, line.usage_source) == (7, 3, "")
        assert line.ttft_ms is not None
    requests = [row for row in records.rows if isinstance(row, RequestRow)]
    attempts = [row for row in records.rows if isinstance(row, AttemptRow)]
    assert [(row.cache, row.cost_usd) for row in requests] == [
        ("miss", 13.0),
        ("hit", 0.0),
        ("miss", 13.0),
        ("hit", 0.0),
    ]
    assert len(attempts) == 2, "only backends use tokens"


async def test_hits_count_for_limits_on_requests_but_use_no_tokens_and_no_budget(
    tmp_path: Path,
) -> None:
    limits = (
        "limits: [{name: few, who: {key: web}, requests: 4, per: day},"
        " {name: tokens, who: {key: web}, tokens: 60, per: day}]\n"
        "budgets: [{name: money, who: {key: web}, usd: 60, per: day}]\n"
    )
    more: Json = {"max_tokens": 20}
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, PRICED + limits), tmp_path) as gateway,
    ):
        found = [await ask(gateway, more, headers=WEB) for _ in range(5)]
        assert [one.status_code for one in found] == [200, 200, 200, 200, 429]
        assert "'few'" in found[-1].text
        assert [shown(one) for one in found[:4]] == ["miss", "hit", "hit", "hit"]
        left = [one.headers["x-ratelimit-remaining-tokens"] for one in found[1:4]]
        assert len(set(left)) == 1, "each finds as many tokens as the one before it"
        gateway.access_lines()
        lease = gateway.state.side(BudgetsSide).budgets.lease("money", "")
        assert sum(line.cost_usd or 0 for line in gateway.access_lines()) == 13
        assert lease is not None


async def test_stored_responses_pass_the_cache_by_and_others_do_not(tmp_path: Path) -> None:
    body: Json = {"model": "chat", "input": "hi"}
    headers = {**ASKS, "authorization": "Bearer key-of-ann-1"}
    async with archived(tmp_path, f"responses: {{store: on, timeout_s: 60}}\n{CACHE}") as up:
        for store, expected in ((True, ["bypass"] * 2), (False, ["miss", "hit"])):
            for stream in (False, True):
                more: Json = {"store": store, "stream": stream}
                found = [
                    await ask(up.gateway, more, path="/v1/responses", base=body, headers=headers)
                    for _ in range(2)
                ]
                assert [shown(one) for one in found] == expected
        assert up.rows() == 4, "each stored response has a row of its own"


async def test_counting_tokens_says_nothing_of_the_cache(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        counted = await ask(gateway, path="/v1/messages/count_tokens")
        assert counted.headers.get("x-gateway-cache") is None


async def test_the_admin_api_the_page_and_traces_show_hits(tmp_path: Path) -> None:
    admin = "auth: {admin_key: key-of-the-operator}\n"
    bearer = {"authorization": "Bearer key-of-the-operator"}
    async with otlp_collector() as collector, provider() as backend:
        telemetry = f'telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: 1}}}}\n'
        text = one_model(backend.base_url, f"{CACHE}{admin}{telemetry}")
        async with serving(text, tmp_path) as gateway:
            for _ in range(2):
                await ask(gateway)
            async with httpx.AsyncClient(
                base_url=gateway.url, headers=bearer, timeout=60
            ) as client:
                listed = (await client.get("/admin/requests")).json()["requests"]
                page = (await client.get("/admin")).text
            await gateway.state.side(TracingSide).close(20)
        assert [one["cache"] for one in listed] == ["hit", "miss"]
        assert "The cache answered, with what remote/m-1 had generated." in page
        found = [values(span).get("strowger.cache") for span in collector.spans()]
        assert sorted(str(one) for one in found if one) == ["hit", "miss"]
