"""Moderation by the gateway's own guardrails, for OpenAI's client."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import httpx
import openai
import pytest
from click.testing import CliRunner
from msgspec import Struct

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.cli.main import strowger
from strowger_gateway.gateway.surfaces.moderation.render import CATEGORIES
from tests.gateway.content.cache.test_cached_requests_are_governed import reload
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

SECRET = "AKIA" + "QYLPMN5HHHFPZAM2"
CUSTOMER = "C-12345678"
KEY = "key-of-all-of-them-0001"

CONFIG = """
auth:
  mode: keys
  keys:
    - {{name: all, key: {key}}}
    - {{name: chats, key: key-of-chats-alone-02, models: [chat]}}
guardrails:
  - {{name: keys, use: secrets, mode: mask}}
  - name: customers
    use: patterns
    models: [other]
    where: output
    mode: monitor
    settings:
      patterns: [{{name: customer, regex: "\\\\bC-[0-9]{{8}}\\\\b"}}]
      words: [project falcon]
  - {{name: hate, use: judge, models: [other], settings: {judge}}}
  - {{name: lenient, use: judge, models: [other], fail: open, settings: {judge}}}
  - {{name: slow, use: judge, models: [other], timeout_s: 0.2, settings: {slow}}}
  - {{name: hasty, use: judge, models: [other], timeout_s: 0.2, fail: open, settings: {slow}}}
providers:
  - {{name: own, adapter: guardrails}}
  - {{name: oa, adapter: openai, base_url: "{url}/v1", api_key: k}}
models:
  - {{name: omni-moderation-latest, backends: [{{provider: own, model: "keys, customers"}}]}}
  - {{name: judged, backends: [{{provider: own, model: "keys,hate"}}]}}
  - {{name: lenient, backends: [{{provider: own, model: "lenient,customers"}}]}}
  - {{name: hasty, backends: [{{provider: own, model: hasty}}]}}
  - {{name: slow, backends: [{{provider: own, model: slow}}]}}
  - name: mixed
    policy: in_order
    backends: [{{provider: own, model: hate}}, {{provider: oa, model: omni}}]
  - {{name: chat, backends: [{{provider: oa, model: gpt}}]}}
  - {{name: other, backends: [{{provider: oa, model: gpt}}]}}
"""


def config_of(url: str) -> str:
    judges = [
        f'{{base_url: "{url}/{path}", model: small, policy: Be kind.}}' for path in ("v1", "slow")
    ]
    return CONFIG.format(url=url, key=KEY, judge=judges[0], slow=judges[1])


async def vendors(request: Received, answer: Answer) -> None:
    """A judge that finds rude texts, fails at unclear ones, and OpenAI's moderation."""
    if request.path.startswith("/slow"):
        await answer.gone.wait()
    elif request.path == "/v1/moderations":
        flags = dict.fromkeys(CATEGORIES, True)
        result = {"flagged": True, "categories": flags, "category_scores": {}}
        await answer.json({"id": "modr-1", "model": "omni", "results": [result]})
    else:
        messages = cast("list[dict[str, str]]", request.json["messages"])
        text = messages[-1]["content"]
        await answer.chat("Maybe." if "unclear" in text else "yes" if "rude" in text else "no")


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """The judge, the gateway, and two clients of it."""

    vendors: Provider
    gateway: Serving
    openai: openai.AsyncOpenAI
    http: httpx.AsyncClient


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with (
        provider(vendors) as remote,
        serving(config_of(remote.origin), tmp_path_factory.mktemp("run")) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as client,
        httpx.AsyncClient(base_url=gateway.url, headers={"x-api-key": KEY}, timeout=20) as http,
    ):
        yield Setting(vendors=remote, gateway=gateway, openai=client, http=http)


async def moderated(setting: Setting, given: object, model: str = "") -> list[Json]:
    body: Json = {"input": given, **({"model": model} if model else {})}
    answer = await setting.http.post("/v1/moderations", json=body)
    assert answer.status_code == 200, answer.text
    return cast("list[Json]", answer.json()["results"])


def flags(results: list[Json], name: str) -> list[object]:
    return [cast("Json", one["categories"])[name] for one in results]


async def test_openais_client_reads_which_guardrails_found_something(setting: Setting) -> None:
    texts = ["Tea?", f"my key is {SECRET}", "About Project Falcon.", f"{SECRET} of {CUSTOMER}"]

    answer = await setting.openai.moderations.create(input=texts)

    assert [one.flagged for one in answer.results] == [False, True, True, True]
    found = [one.categories.model_dump() for one in answer.results]
    assert [one["keys"] for one in found] == [False, True, False, True]
    assert [one["customers"] for one in found] == [False, False, True, True]
    assert not any(one.categories.hate or one.categories.violence for one in answer.results)
    assert SECRET not in answer.model_dump_json()
    assert CUSTOMER not in answer.model_dump_json()


async def test_scores_and_kinds_say_what_was_read(setting: Setting) -> None:
    (found,) = await moderated(setting, f"key {SECRET}")

    scores = cast("dict[str, float]", found["category_scores"])
    kinds = cast("dict[str, list[str]]", found["category_applied_input_types"])
    assert (scores["keys"], scores["customers"], scores["hate"]) == (1.0, 0.0, 0.0)
    assert (kinds["keys"], kinds["customers"], kinds["hate"]) == (["text"], ["text"], [])
    assert scores.keys() == {*CATEGORIES, "keys", "customers"}


async def test_a_guardrail_with_the_name_of_a_category_is_that_category(setting: Setting) -> None:
    answer = await setting.openai.moderations.create(model="judged", input=["nice", "rude"])

    assert [one.categories.hate for one in answer.results] == [False, True]
    assert [one.category_scores.hate for one in answer.results] == [0.0, 1.0]


async def test_a_guardrail_sees_the_text_as_those_before_it_masked_it(setting: Setting) -> None:
    results = await moderated(setting, f"rude {SECRET}", "judged")

    assert (flags(results, "keys"), flags(results, "hate")) == ([True], [True])
    assert SECRET not in str(setting.vendors.requests[-1].json)


async def test_parts_are_judged_together_and_images_are_refused(setting: Setting) -> None:
    parts = [{"type": "text", "text": "Tea?"}, {"type": "text", "text": SECRET}]
    image: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}

    results = await moderated(setting, parts)
    refused = await setting.http.post("/v1/moderations", json={"input": [*parts, image]})

    assert flags(results, "keys") == [True]
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "input.images"


async def test_the_last_message_of_conversations_is_judged(setting: Setting) -> None:
    said: list[Json] = [
        {"role": "user", "content": SECRET},
        {"role": "assistant", "content": "I keep no keys."},
    ]

    answer = await setting.http.post("/v1/chat/moderations", json={"input": [said, said[:1]]})

    assert flags(answer.json()["results"], "keys") == [False, True]


@pytest.mark.parametrize("count", [1, 40])
async def test_results_are_in_order_for_long_and_many_texts(setting: Setting, count: int) -> None:
    texts = [f"{'tea ' * 20_000}{SECRET if place % 3 == 0 else ''}" for place in range(count)]

    results = await moderated(setting, texts)

    assert flags(results, "keys") == [place % 3 == 0 for place in range(count)]


async def test_a_guardrail_that_fails_closed_is_a_503(setting: Setting) -> None:
    broken = {"model": "judged", "input": ["nice", "unclear"]}
    silent = {"model": "slow", "input": "nice"}

    for body in (broken, silent):
        failed = await setting.http.post("/v1/moderations", json=body)

        assert (failed.status_code, failed.json()["error"]["code"]) == (503, "guardrail_failed")
        assert "unclear" not in failed.text


async def test_a_guardrail_that_fails_open_has_read_nothing(setting: Setting) -> None:
    (found,) = await moderated(setting, f"unclear {CUSTOMER}", "lenient")

    kinds = cast("Json", found["category_applied_input_types"])
    assert (found["flagged"], kinds["lenient"], kinds["customers"]) == (True, [], ["text"])
    assert flags([found], "lenient") == [False]


async def test_the_log_says_that_an_open_guardrail_was_too_slow(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    (found,) = await moderated(setting, "nice", "hasty")

    assert (found["flagged"], flags([found], "hasty")) == (False, [False])
    assert "guardrail hasty failed" in caplog.text
    assert "no answer within 0.2 s" in caplog.text


async def test_the_next_backend_answers_for_a_guardrail_that_fails(setting: Setting) -> None:
    (own,) = await moderated(setting, "rude", "mixed")
    (theirs,) = await moderated(setting, "unclear", "mixed")

    assert (own["flagged"], flags([own], "violence")) == (True, [False])
    assert flags([theirs], "violence") == [True]


async def test_guardrails_hold_where_another_backend_may_get_the_text(setting: Setting) -> None:
    await moderated(setting, f"unclear {SECRET}", "mixed")

    assert setting.vendors.requests[-1].path == "/v1/moderations"
    assert SECRET not in str(setting.vendors.requests[-1].json)


async def test_keys_and_records_are_those_of_all_requests(setting: Setting) -> None:
    key = {"x-api-key": "key-of-chats-alone-02"}
    refused = await setting.http.post("/v1/moderations", json={"input": "a"}, headers=key)
    await moderated(setting, f"a {SECRET}")

    line = setting.gateway.access_lines()[-1]
    assert refused.status_code == 404
    assert (line.surface, line.task, line.status) == ("moderation", "moderate", 200)
    assert (line.backend, line.usage_source) == ("own/keys, customers", "estimated")
    assert SECRET not in str(line)


async def test_guardrails_answer_no_chats(setting: Setting) -> None:
    body: Json = {"model": "judged", "messages": [{"role": "user", "content": "rude"}]}

    refused = await setting.http.post("/v1/chat/completions", json=body)

    assert refused.status_code == 400


async def test_payloads_never_have_what_was_moderated(tmp_path: Path) -> None:
    text = f"""
guardrails: [{{name: keys, use: secrets, mode: monitor}}]
logging: {{payloads: {{mode: all, dir: "{tmp_path / "logged"}"}}}}
providers: [{{name: own, adapter: guardrails}}]
models: [{{name: m, backends: [{{provider: own, model: keys}}]}}]
"""
    body: Json = {"model": "m", "input": SECRET}
    async with serving(text, tmp_path / "run") as gateway, httpx.AsyncClient() as http:
        answer = await http.post(f"{gateway.url}/v1/moderations", json=body)

    assert flags(answer.json()["results"], "keys") == [True]
    files = [one.read_text() for one in (tmp_path / "logged").rglob("*") if one.is_file()]
    assert any(answer.headers["x-request-id"] in one for one in files)
    assert not any(SECRET in one for one in files)


def check(folder: Path, text: str) -> str:
    """What `strowger check` says of a file, in one line."""
    file = folder / "config.yaml"
    file.write_text(text)
    return " ".join(CliRunner().invoke(strowger, ["check", str(file)]).output.split())


OWN = """
guardrails: [{name: keys, use: secrets}]
providers: [{name: own, adapter: guardrails%s}]
models: [{name: m, backends: [{provider: own, model: "%s"}]}]
"""


@pytest.mark.parametrize(
    ("extra", "model", "words"),
    [
        ("", "kyes", 'models[0].backends[0].model: no guardrail is named "kyes"; did you mean'),
        ("", "keys,", 'models[0].backends[0].model: no guardrail is named ""'),
        ("", "*", "models[0].backends[0].model"),
        (", base_url: 'http://a'", "keys", "base_url: has no effect with adapter guardrails"),
        (", api_key: k", "keys", "api_key: has no effect with adapter guardrails"),
    ],
)
def test_a_name_without_a_guardrail_is_refused_by_its_place(
    tmp_path: Path, extra: str, model: str, words: str
) -> None:
    assert words in check(tmp_path, OWN % (extra, model))


def test_a_guardrail_that_acts_on_what_it_should_flag_is_warned_of(tmp_path: Path) -> None:
    text = OWN % ("}, {name: oa, adapter: openai, api_key: k", "keys")
    mixed = text.replace('"keys"}]', '"keys"}, {provider: oa, model: omni}]')

    assert "guardrails[0].models: include 'm'" in check(tmp_path, mixed)
    assert "guardrails[0].models" not in check(tmp_path, text)


async def test_a_changed_guardrail_is_not_answered_from_the_cache(tmp_path: Path) -> None:
    text = """
cache: {{}}
guardrails: [{{name: words, use: patterns, settings: {{words: [{word}]}}}}]
providers: [{{name: own, adapter: guardrails}}]
models: [{{name: m, cache: {{}}, backends: [{{provider: own, model: words}}]}}]
"""
    body: Json = {"model": "m", "input": "tea or coffee"}
    found: list[object] = []
    later: list[Runtime] = []
    async with (
        serving(text.format(word="milk"), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        for word in ("milk", "tea"):
            later.append(reload(gateway, text.format(word=word), tmp_path))
            answer = await http.post("/v1/moderations", json=body)
            found.append(answer.json()["results"][0]["flagged"])
        for one in later:
            await one.close()

    assert found == [False, True]
