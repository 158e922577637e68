"""Guardrails that ask a service, against stand-ins of moderation, Presidio, and a judging model."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest
from openai.types import ModerationCreateResponse

from strowger_gateway.gateway.assembly.generations import POLL_S
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.content.guardrails.moderation import moderation_hook
from strowger_gateway.gateway.content.guardrails.part import GuardrailsSide
from strowger_gateway.gateway.content.guardrails.presidio import presidio_hook
from strowger_gateway.gateway.content.guardrails.service_client import CONNECTIONS
from strowger_gateway.gateway.content.guardrails.setup import guards_of
from strowger_gateway.gateway.content.hooks.contract import AsyncHook
from strowger_gateway.gateway.content.hooks.testing import contract
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.content.hooks.test_guarded_requests import (
    CHAT,
    PATHS,
    Guarded,
    guarded,
    shown,
)
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

pytestmark = pytest.mark.anyio

KEY = "service-key-0123456789"
OTHER = (
    "harassment/threatening",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence/graphic",
)
RUDE = re.compile("idiot")
PEOPLE = re.compile("Ada|Alan|4111 1111 1111 1111")


async def moderation(request: Received, answer: Answer) -> None:
    """OpenAI's endpoint; the official client's types check what it sends."""
    assert request.path == "/v1/moderations"
    if request.headers.get("authorization") != f"Bearer {KEY}":
        await answer.json({"error": {"message": "wrong key"}}, status=401)
        return
    texts = cast("list[str]", request.json["input"])
    results = [_result(bool(RUDE.search(text))) for text in texts]
    body = {"id": "modr-1", "model": request.json["model"], "results": results}
    ModerationCreateResponse.model_validate(body)
    await answer.json(body)


def _result(flagged: bool) -> dict[str, object]:
    names = ("harassment", "hate", "violence", *OTHER)
    kinds: list[str] = []
    return {
        "flagged": flagged,
        "categories": {name: flagged and name == "harassment" for name in names},
        "category_scores": {name: 0.7 * (flagged and name == "harassment") for name in names},
        "category_applied_input_types": dict.fromkeys(names, kinds),
    }


async def presidio(request: Received, answer: Answer) -> None:
    """The analyzer and the anonymizer at one address."""
    body = request.json
    text = str(body["text"])
    if request.path == "/analyze":
        found = [
            {"start": one.start(), "end": one.end(), "score": 0.85, "entity_type": "PERSON",
             "analysis_explanation": None}
            for one in PEOPLE.finditer(text)
        ]  # fmt: skip
        await answer.json(found)
    else:
        assert request.path == "/anonymize"
        assert cast("list[object]", body["analyzer_results"])
        items = [{"start": 0, "end": 3, "entity_type": "PERSON", "text": "P#1", "operator": "x"}]
        await answer.json({"text": f"P#{len(text)}", "items": items})


async def judge(request: Received, answer: Answer) -> None:
    messages = cast("list[dict[str, str]]", request.json["messages"])
    text = str(json.loads(messages[1]["content"]))
    await answer.chat("Maybe." if "unclear" in text else "Yes." if "rude" in text else "no")


async def silent(request: Received, answer: Answer) -> None:
    await answer.gone.wait()


async def broken(request: Received, answer: Answer) -> None:
    await answer.json({"results": "none"})


@asynccontextmanager
async def asking(
    tmp_path: Path, service: Behaviour, rail: str, *texts: str
) -> AsyncGenerator[tuple[Guarded, Provider], None]:
    """A gateway with one guardrail; rail: its keys, with {url} for the service's origin."""
    async with provider(service) as asked:
        config = f"guardrails: [{{name: g, {rail.replace('{url}', asked.origin)}}}]"
        async with guarded(tmp_path, config, *texts) as at:
            yield at, asked


MODERATES = f"use: moderation, api_key: {KEY}, settings: {{base_url: '{{url}}/v1'}}"
ANALYZES = "use: presidio, mode: mask, settings: {base_url: '{url}'}"
JUDGES = "use: judge, settings: {base_url: '{url}/v1', model: small, policy: Be kind.}"


@pytest.mark.parametrize("path", PATHS)
async def test_a_request_that_moderation_flags_is_blocked(path: str, tmp_path: Path) -> None:
    async with asking(tmp_path, moderation, MODERATES, "hello") as (at, asked):
        refused = await at.ask(path, "You idiot!")
        passed = await at.ask(path, "Good morning!")
        assert (refused.status_code, passed.status_code) == (400, 200), passed.text
        assert len(at.received) == 1
        assert "Good morning!" in cast("list[str]", asked.requests[1].json["input"])
        first, _ = at.up.access_lines()
        assert first.guardrails == ("g/harassment:block",)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_moderation_flags_is_blocked(stream: bool, tmp_path: Path) -> None:
    rail = MODERATES.replace("use:", "where: output, use:")
    async with asking(tmp_path, moderation, rail, *"You are an idiot.") as (at, _):
        answer = await at.ask(CHAT, "hi", stream=stream)
        assert answer.status_code == 400
        assert "the guardrail 'g' blocked the answer" in answer.text


async def test_thresholds_replace_what_the_endpoint_flags(tmp_path: Path) -> None:
    for least, status in ((0.6, 400), (0.8, 200)):
        rail = MODERATES.replace("/v1'", f"/v1', thresholds: {{harassment: {least}}}")
        async with asking(tmp_path, moderation, rail, "hello") as (at, _):
            assert (await at.ask(CHAT, "idiot")).status_code == status


async def test_presidio_masks_personal_data_in_both_directions(tmp_path: Path) -> None:
    async with asking(tmp_path, presidio, ANALYZES, *"I am Alan, é.") as (at, _):
        whole = await at.ask(CHAT, "I am Ada.")
        stream = await at.ask(CHAT, "hi", stream=True)
        assert "I am <PERSON>." in at.received[0].body.decode()
        assert "I am <PERSON>, é." in whole.json()["choices"][0]["message"]["content"]
        assert shown(CHAT, stream.text) == "I am <PERSON>, é."


async def test_a_threshold_of_a_category_without_a_score_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rail = MODERATES.replace("/v1'", "/v1', thresholds: {harrassment: 0.1}")
    async with asking(tmp_path, moderation, rail, "hello") as (at, _):
        assert (await at.ask(CHAT, "idiot")).status_code == 503
    assert "no score for 'harrassment', which has a threshold" in caplog.text


@pytest.mark.parametrize("stream", [False, True])
async def test_presidio_masks_numbers_without_any_letter(stream: bool, tmp_path: Path) -> None:
    card = "4111 1111 1111 1111"
    async with asking(tmp_path, presidio, ANALYZES, *card) as (at, _):
        answer = await at.ask(CHAT, card, stream=stream)
        assert at.received[0].json["messages"] == [{"role": "user", "content": "<PERSON>"}]
        text = shown(CHAT, answer.text) if stream else answer.text
        assert "<PERSON>" in text
        assert card not in text


async def test_presidios_anonymizer_chooses_what_replaces_each_finding(tmp_path: Path) -> None:
    operators = "anonymizers: {PERSON: {type: hash}}"
    rail = ANALYZES.replace("'{url}'", f"'{{url}}', anonymizer_url: '{{url}}', {operators}")
    async with asking(tmp_path, presidio, rail, "hello") as (at, asked):
        await at.ask(CHAT, "Ada met Alan.")
        assert "P#3 met P#4." in at.received[0].body.decode()
        sent = [one.json for one in asked.requests if one.path == "/anonymize"]
        assert all(one["anonymizers"] == {"PERSON": {"type": "hash"}} for one in sent)


async def test_a_model_judges_requests_and_answers(tmp_path: Path) -> None:
    async with asking(tmp_path, judge, JUDGES, "how rude") as (at, asked):
        assert (await at.ask(CHAT, "be rude")).status_code == 400
        answer = await at.ask(CHAT, "hi")
        assert "the guardrail 'g' blocked the answer" in answer.text
        system = cast("list[dict[str, str]]", asked.requests[0].json["messages"])[0]
        assert "Be kind." in system["content"]


@pytest.mark.parametrize("fail", ["open", "closed"])
@pytest.mark.parametrize(
    ("service", "text", "reason"),
    [
        (silent, "hi", "timeout"),
        (broken, "hi", "error"),
        (judge, "unclear", "error"),
    ],
    ids=["hangs", "answers with something else", "is undecided"],
)
async def test_a_service_that_fails_fails_the_guardrail(
    service: Behaviour, text: str, reason: str, fail: str, tmp_path: Path
) -> None:
    rail = (JUDGES if service is judge else MODERATES) + f", fail: {fail}, where: input"
    waits = "0.1" if service is silent else "20"
    async with asking(tmp_path, service, f"{rail}, timeout_s: {waits}", "hello") as (at, _):
        answer = await asyncio.wait_for(at.ask(CHAT, text), 30)
        assert answer.status_code == (200 if fail == "open" else 503)
        [line] = at.up.access_lines()
        assert line.guardrails == (f"g/{reason}:failed",)
        assert KEY not in at.up.log.getvalue().decode()


async def test_a_reload_lets_a_judge_that_monitors_end_its_work(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(request: Received, answer: Answer) -> None:
        await go_on.wait()
        await judge(request, answer)

    rail = f"{JUDGES}, mode: monitor, timeout_s: 60"
    texts = [f"word and word number {number}. " for number in range(20)]
    async with asking(tmp_path, slow, rail, *texts, "How rude.") as (at, asked):
        gateway = at.up.state
        generations = gateway.generations
        assert (await at.ask(CHAT, "hello there", stream=True)).status_code == 200
        later = Runtime(read_config(one_model("http://127.0.0.1:9/v1"), source="c", env={}),
                        run_dir=tmp_path)  # fmt: skip
        gateway.use_runtime(later)
        await asyncio.sleep(3 * POLL_S)
        go_on.set()
        await asyncio.wait_for(generations.wait_old_requests(), 60)
        assert gateway.side(GuardrailsSide).counts.failures == {}
        assert gateway.side(GuardrailsSide).counts.findings["g", "answer", "monitor"] == 1
        assert len(asked.requests) > 3
        await later.close()


async def test_hooks_with_a_service_keep_the_contract() -> None:
    async with provider(moderation) as flags, provider(presidio) as finds:
        checks = [
            *contract(
                lambda _: cast("AsyncHook", moderation_hook(
                    {"base_url": f"{flags.origin}/v1", "api_key": KEY, **_})),
                {}, finds={"You idiot.": "idiot"}, where="input",
            ),
            *contract(
                lambda _: cast("AsyncHook", presidio_hook({"base_url": finds.origin, **_})),
                {}, finds={"I am Ada.": "Ada"}, hold_back=8,
            ),
        ]  # fmt: skip
        for check in checks:
            await asyncio.to_thread(check)


def test_settings_of_services_are_checked() -> None:
    rails = """
guardrails:
  - {name: a, use: moderation, settings: {base_url: "ftp://x"}}
  - {name: b, use: presidio, settings: {base_url: "http://x", anonymizers: {PERSON: {type: mask}}}}
  - {name: c, use: judge, settings: {base_url: "http://x", model: m}}
"""
    config = read_config(one_model("http://127.0.0.1:1/v1", rails), source="c.yaml", env={})
    with pytest.raises(InvalidConfig) as refused:
        guards_of(config)
    assert refused.value.problems == (
        "guardrails[0].settings: base_url: 'ftp://x' is not an http:// or https:// URL",
        "guardrails[1].settings: anonymizers needs anonymizer_url",
        "guardrails[2].settings: Object missing required field `policy`",
    )


async def test_a_key_that_fills_the_connections_to_a_service_leaves_some_to_others(
    tmp_path: Path,
) -> None:
    slow = asyncio.Semaphore(0)

    async def service(request: Received, answer: Answer) -> None:
        if b"slow" in request.body:
            slow.release()
            await answer.gone.wait()
        else:
            await moderation(request, answer)

    async with provider(service) as asked, provider() as vendor:
        keys = "keys: [{name: a, key: key-of-a}, {name: b, key: key-of-b}]"
        config = f"""
auth: {{mode: keys, {keys}}}
guardrails: [{{name: g, timeout_s: 20, {MODERATES.replace("{url}", asked.origin)}}}]
providers: [{{name: p, adapter: openai, base_url: {vendor.base_url}, api_key: k}}]
models: [{{name: chat, backends: [{{provider: p, model: m}}]}}]
"""
        async with (
            serving(config, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):

            async def ask(key: str, text: str) -> httpx.Response:
                body = {"model": "chat", "messages": [{"role": "user", "content": text}]}
                headers = {"authorization": f"Bearer key-of-{key}"}
                return await client.post("/v1/chat/completions", json=body, headers=headers)

            greedy = [asyncio.create_task(ask("a", "slow words")) for _ in range(CONNECTIONS + 6)]
            async with asyncio.timeout(20):
                for _ in range(CONNECTIONS - CONNECTIONS // 8):
                    await slow.acquire()
            async with asyncio.timeout(10):
                answer = await ask("b", "Good morning!")
            none_more = slow.locked()  # before requests that wait take turns of those that end
            for task in greedy:
                task.cancel()
            await asyncio.gather(*greedy, return_exceptions=True)

    assert answer.status_code == 200
    assert none_more
