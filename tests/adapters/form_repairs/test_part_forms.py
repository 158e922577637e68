"""Content parts in forms that OpenAI refuses are sent in the form that it takes."""

import json
from base64 import b64encode
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

PDF = "data:application/pdf;base64,JVBERi0="
NOTES = b64encode("Grüße".encode()).decode()


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("forms")
    async with one_of_each(
        folder, "openai", "azure", "openrouter", "vllm", "mistral", "tgi"
    ) as one:
        yield one


def parts(rig: Rig) -> list[Json]:
    return cast("list[Json]", cast("list[Json]", rig.sent["messages"])[0]["content"])


@pytest.mark.parametrize("model", ["openai", "azure", "openrouter"])
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_a_file_without_a_name_gets_one(rig: Rig, surface: str, model: str) -> None:
    if surface == "chat":
        file: Json = {"type": "file", "file": {"file_data": PDF}}
        answer = await rig.chat(model, messages=[{"role": "user", "content": [file]}])
    elif surface == "messages":
        source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
        block = {"type": "document", "source": source, "citations": {"enabled": True}}
        answer = await rig.messages(
            model, messages=[{"role": "user", "content": [{**block, "context": "c"}]}]
        )
    else:
        given = {"type": "input_file", "file_data": PDF}
        answer = await rig.responses(model, input=[{"role": "user", "content": [given]}])

    assert answer.status_code == 200, answer.text
    sent = {"file_data": PDF, "filename": "document.pdf"}
    assert parts(rig) == [{"type": "file", "file": sent}]
    assert any(one.endswith(":file_form") for one in repairs(answer))


async def test_a_backend_that_reads_no_files_says_what_to_send(rig: Rig) -> None:
    file = {"type": "file", "file": {"file_data": PDF}}
    answer = await rig.chat("tgi", messages=[{"role": "user", "content": [file]}])

    assert answer.status_code == 400
    said = answer.json()["error"]["message"]
    assert said.endswith("messages.opaque (files, for example) is not supported: send its text")


async def test_a_files_own_name_stays(rig: Rig) -> None:
    file = {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}
    answer = await rig.chat("openai", messages=[{"role": "user", "content": [file]}])

    assert parts(rig) == [file]
    assert repairs(answer) == []


@pytest.mark.parametrize("model", ["openai", "vllm"])
async def test_a_text_as_a_document_is_sent_as_text(rig: Rig, model: str) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Grüße"}
    block = {"type": "document", "source": source, "title": "notes.txt"}
    await rig.messages(model, messages=[{"role": "user", "content": [block]}])

    assert parts(rig) == [{"type": "text", "text": "notes.txt:\nGrüße"}]


async def test_a_text_as_a_file_of_a_chat_client_is_sent_as_text(rig: Rig) -> None:
    file = {"type": "file", "file": {"file_data": f"data:text/markdown;base64,{NOTES}"}}
    turn = {"role": "user", "content": [file], "name": "ann"}
    await rig.chat("openai", messages=[turn])

    first = cast("list[Json]", rig.sent["messages"])[0]
    assert first["content"] == [{"type": "text", "text": "document:\nGrüße"}]
    assert first["name"] == "ann"


@pytest.mark.parametrize("model", ["openai", "azure", "vllm"])
async def test_an_images_bare_address_becomes_an_object(rig: Rig, model: str) -> None:
    image = {"type": "image_url", "image_url": "https://a.test/b.png"}
    answer = await rig.chat(model, messages=[{"role": "user", "content": [image]}])

    assert answer.status_code == 200, answer.text
    assert parts(rig) == [{"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}]
    assert repairs(answer) == ["messages[].content[].image_url:image_address"]


@pytest.mark.parametrize(
    ("name", "sent"),
    [(None, "answer"), ("", "answer"), ("My answer!", "My_answer"), ("x" * 70, "x" * 55 + "_")],
)
async def test_a_schema_gets_a_name_that_openai_takes(
    rig: Rig, name: str | None, sent: str
) -> None:
    schema: Json = {"schema": {"type": "object", "properties": {}}, "strict": False}
    given = schema if name is None else {**schema, "name": name}
    answer = await rig.chat("openai", response_format={"type": "json_schema", "json_schema": given})

    assert answer.status_code == 200, answer.text
    form = cast("Json", rig.sent["response_format"])
    inner = cast("Json", form["json_schema"])
    assert str(inner["name"]).startswith(sent)
    assert len(str(inner["name"])) <= 64
    assert {key: value for key, value in inner.items() if key != "name"} == schema
    assert repairs(answer) == ["response_format.json_schema.name:schema_name"]
    assert json.dumps(rig.sent).count('"name"') == 1
