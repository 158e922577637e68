"""Moderation by OpenAI, Mistral and Azure, for OpenAI's own client and Mistral's."""

from collections.abc import AsyncGenerator
from typing import cast

import httpx
import openai
import pytest
from msgspec import Struct

from strowger_gateway.gateway.surfaces.moderation.render import CATEGORIES
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

CONFIG = """
auth:
  mode: keys
  keys:
    - {{name: all, key: key-of-all-of-them-0001}}
    - {{name: chats, key: key-of-chats-alone-02, models: [chat]}}
providers:
  - {{name: oa, adapter: openai, base_url: "{url}/openai/v1", api_key: k}}
  - {{name: mi, adapter: mistral, base_url: "{url}/mistral/v1", api_key: k}}
  - {{name: az, adapter: azure-content-safety, base_url: "{url}/azure", api_key: k}}
models:
  - {{name: omni-moderation-latest, backends: [{{provider: oa, model: omni-moderation-latest}}]}}
  - {{name: mistral, backends: [{{provider: mi, model: mistral-moderation-latest}}]}}
  - {{name: azure, backends: [{{provider: az, model: text}}]}}
  - {{name: chat, backends: [{{provider: oa, model: gpt}}]}}
"""
MISTRALS = (
    *("sexual", "hate_and_discrimination", "violence_and_threats", "selfharm", "pii", "law"),
    "dangerous_and_criminal_content",
)
IMAGE = "data:image/png;base64,iVBORw0KGgo="


def harm_of(text: str) -> float:
    return 0.9 if "hurt" in text else 0.01


def openais(body: Json) -> Json:
    """Judge as OpenAI does: texts one by one, parts together."""
    assert body.keys() <= {"model", "input"}
    given = cast("list[object]", body["input"])
    texts = [one for one in given if isinstance(one, str)]
    kinds = ["text"]
    if len(texts) != len(given):
        parts = cast("list[Json]", given)
        assert all(one["type"] in ("text", "image_url") for one in parts)
        texts = [" ".join(str(one.get("text", "")) for one in parts)]
        kinds = ["text", "image"]
    results: list[Json] = []
    for text in texts:
        scores = {name: harm_of(text) if name == "violence" else 0.0 for name in CATEGORIES}
        results.append(
            {
                "flagged": max(scores.values()) > 0.5,
                "categories": {name: score > 0.5 for name, score in scores.items()},
                "category_scores": scores,
                "category_applied_input_types": dict.fromkeys(CATEGORIES, kinds),
            }
        )
    return {"id": "modr-1", "model": "omni-moderation-2024-09-26", "results": results}


def mistrals(body: Json, *, chats: bool) -> Json:
    assert body.keys() <= {"model", "input"}
    results: list[Json] = []
    for one in cast("list[object]", body["input"]):
        text = str(cast("list[Json]", one)[-1]["content"]) if chats else cast("str", one)
        scores = {
            name: harm_of(text) if name == "violence_and_threats" else 0.0 for name in MISTRALS
        }
        scores["pii"] = 0.95 if "555" in text else 0.0
        categories = {name: score > 0.5 for name, score in scores.items()}
        results.append({"categories": categories, "category_scores": scores})
    return {"id": "m-1", "model": "mistral-moderation-2411", "results": results}


def azures(path: str, body: Json) -> Json:
    assert path.endswith("?api-version=2024-09-01")
    if "image:analyze" in path:
        assert cast("Json", body["image"])["content"] == "iVBORw0KGgo="
        severity = 0
    else:
        assert body.keys() == {"text"}
        severity = 6 if "hurt" in str(body["text"]) else 2
    analysis = [{"category": "Violence", "severity": severity}, {"category": "Hate", "severity": 0}]
    return {"blocklistsMatch": [], "categoriesAnalysis": analysis}


async def vendors(request: Received, answer: Answer) -> None:
    """A text that begins with `answer ` is answered with the rest of it."""
    given = request.json.get("text") or request.json.get("input")
    first = cast("list[object]", given)[0] if isinstance(given, list) else given
    if isinstance(first, str) and first.startswith("answer "):
        await answer.body(first.removeprefix("answer ").encode(), "application/json")
        return
    if request.path == "/openai/v1/moderations":
        await answer.json(openais(request.json))
    elif request.path == "/mistral/v1/moderations":
        await answer.json(mistrals(request.json, chats=False))
    elif request.path == "/mistral/v1/chat/moderations":
        await answer.json(mistrals(request.json, chats=True))
    elif request.path.startswith("/azure/contentsafety/"):
        assert request.headers["ocp-apim-subscription-key"] == "k"
        await answer.json(azures(request.path, request.json))
    else:
        await answer.json({"error": {"message": "no such path"}}, 404)


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """The vendors, the gateway, and two clients of it."""

    vendors: Provider
    gateway: Serving
    openai: openai.AsyncOpenAI
    http: httpx.AsyncClient


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    key = "key-of-all-of-them-0001"
    async with (
        provider(vendors) as remote,
        serving(CONFIG.format(url=remote.origin), tmp_path_factory.mktemp("run")) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0) as client,
        httpx.AsyncClient(base_url=gateway.url, headers={"x-api-key": key}, timeout=20) as http,
    ):
        yield Setting(vendors=remote, gateway=gateway, openai=client, http=http)


async def test_a_client_that_names_no_model_gets_openais_default(setting: Setting) -> None:
    answer = await setting.openai.moderations.create(input="I will hurt you.")

    (found,) = answer.results
    assert (found.flagged, found.categories.violence) == (True, True)
    assert found.categories.harassment is False
    assert found.category_scores.violence == 0.9
    assert found.category_applied_input_types.violence == ["text"]
    assert answer.id.startswith("modr-")


@pytest.mark.parametrize("model", ["omni-moderation-latest", "mistral", "azure"])
async def test_texts_are_judged_one_by_one_by_every_vendor(setting: Setting, model: str) -> None:
    texts = ["Tea?", "I will hurt you.", "Bye."]

    answer = await setting.openai.moderations.create(model=model, input=texts)

    assert [one.flagged for one in answer.results] == [False, True, False]
    assert [one.categories.violence for one in answer.results] == [False, True, False]
    assert answer.results[1].category_scores.violence >= 0.9


async def test_a_category_that_a_vendor_lacks_was_read_from_nothing(setting: Setting) -> None:
    body: Json = {"model": "mistral", "input": "Call 555 01 99."}

    (found,) = (await setting.http.post("/v1/moderations", json=body)).json()["results"]

    assert found["flagged"] is True
    assert found["categories"]["pii"] is True
    assert found["category_applied_input_types"]["pii"] == ["text"]
    assert found["category_applied_input_types"]["sexual/minors"] == []
    assert found["categories"].keys() >= set(CATEGORIES)


async def test_texts_and_images_are_judged_together(setting: Setting) -> None:
    answer = await setting.openai.moderations.create(
        model="omni-moderation-latest",
        input=[
            {"type": "text", "text": "I will hurt you."},
            {"type": "image_url", "image_url": {"url": IMAGE}},
        ],
    )

    (found,) = answer.results
    assert found.flagged
    assert found.category_applied_input_types.violence == ["text", "image"]
    sent = cast("list[Json]", setting.vendors.requests[-1].json["input"])
    assert sent[1] == {"type": "image_url", "image_url": {"url": IMAGE}}


async def test_azure_judges_an_image_by_itself_and_refuses_it_with_a_text(
    setting: Setting,
) -> None:
    image: Json = {"type": "image_url", "image_url": {"url": IMAGE}}
    both = [{"type": "text", "text": "hi"}, image]

    alone = await setting.http.post("/v1/moderations", json={"model": "azure", "input": [image]})
    refused = await setting.http.post("/v1/moderations", json={"model": "azure", "input": both})

    (found,) = alone.json()["results"]
    assert found["flagged"] is False
    assert found["category_applied_input_types"]["violence"] == ["image"]
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "input"


async def test_azures_severities_become_scores(setting: Setting) -> None:
    body: Json = {"model": "azure", "input": ["Tea?", "I will hurt you."]}

    calm, harmful = (await setting.http.post("/v1/moderations", json=body)).json()["results"]

    assert round(calm["category_scores"]["violence"], 3) == 0.333
    assert calm["flagged"] is False
    assert harmful["category_scores"]["violence"] == 1.0


@pytest.mark.parametrize("several", [False, True])
async def test_mistral_judges_the_last_message_of_conversations(
    setting: Setting, several: bool
) -> None:
    said: list[object] = [
        {"role": "user", "content": "I will hurt you."},
        {"role": "assistant", "content": [{"type": "text", "text": "Please do not."}]},
    ]
    body: Json = {"model": "mistral", "input": [said, said[:1]] if several else said}

    answer = await setting.http.post("/v1/chat/moderations", json=body)

    flags = [one["flagged"] for one in answer.json()["results"]]
    assert flags == ([False, True] if several else [False])
    refused = await setting.http.post("/v1/chat/moderations", json={**body, "model": "azure"})
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("path", "given", "param"),
    [
        ("/v1/moderations", list[str](), "input"),
        ("/v1/moderations", 5, "input"),
        ("/v1/moderations", ["a", {"type": "text", "text": "b"}], "input[0]"),
        ("/v1/moderations", [{"type": "audio"}], "input[0]"),
        ("/v1/moderations", ["a"] * 2049, "input"),
        ("/v1/chat/moderations", list[str](), "input"),
        ("/v1/chat/moderations", [list[str]()], "input[0]"),
        ("/v1/chat/moderations", [{"role": "robot", "content": "a"}], "input[0].role"),
    ],
)
async def test_what_cannot_be_judged_is_refused_by_its_field(
    setting: Setting, path: str, given: object, param: str
) -> None:
    refused = await setting.http.post(path, json={"input": given})

    assert refused.status_code == 400
    assert refused.json()["error"]["param"].startswith(param)


async def test_keys_and_records_are_those_of_all_requests(setting: Setting) -> None:
    key = {"x-api-key": "key-of-chats-alone-02"}
    refused = await setting.http.post("/v1/moderations", json={"input": "a"}, headers=key)
    await setting.http.post("/v1/moderations", json={"input": "a"})

    line = setting.gateway.access_lines()[-1]
    assert refused.status_code == 404
    assert (line.surface, line.task, line.status) == ("moderation", "moderate", 200)
    assert line.usage_source == "estimated"


async def test_a_category_without_a_score_or_a_kind_costs_no_answer(setting: Setting) -> None:
    """OpenAI's models that do not know a category answer null for it."""
    result = (
        '{"flagged":true,"categories":{"violence":true,"illicit":null},'
        '"category_scores":{"violence":0.9,"illicit":null},'
        '"category_applied_input_types":{"violence":["text"],"illicit":null}}'
    )
    said = f'answer {{"id":7,"usage":[],"results":[{result}]}}'

    answer = await setting.openai.moderations.create(input=said)

    (found,) = answer.results
    assert (found.flagged, found.categories.violence, found.categories.illicit) == (
        True,
        True,
        False,
    )
    assert found.category_applied_input_types.illicit == []


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        ("omni-moderation-latest", '{"results":[]}'),
        ("omni-moderation-latest", '{"results":[{"categories":{}}]}'),
        ("mistral", '{"results":[{"categories":{}}]}'),
        ("azure", '{"categoriesAnalysis":[]}'),
        ("azure", '{"categoriesAnalysis":[{"category":"Hate"}]}'),
    ],
)
async def test_an_answer_that_says_nothing_is_not_taken_for_harmless(
    setting: Setting, model: str, answer: str
) -> None:
    body: Json = {"model": model, "input": f"answer {answer}"}

    refused = await setting.http.post("/v1/moderations", json=body)

    assert refused.status_code == 502
