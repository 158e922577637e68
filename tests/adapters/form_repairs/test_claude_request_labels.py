"""What labels a request at Claude's services: the user's name, metadata, and stop strings."""

import json
import re
from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.adapters.bedrock.form_repairs import FORM_REPAIRS
from strowger_gateway.adapters.repairs.rule import Aim, repaired
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)
from tests.stand_ins.bedrock_server import delta, starts
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

ANTHROPIC = ["anthropic", "vertex-anthropic"]
CODING_TOOL = json.dumps({"device_id": "7" * 64, "account_uuid": "", "session_id": "1-2"})
PIECES = ("one\n", "\ntwo")
LABEL = r"[a-zA-Z0-9\s:_@$#=/+,\-.]{0,256}"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("labels"), *ANTHROPIC, "bedrock") as one:
        yield one


def hashed(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def user_of(sent: Json) -> object:
    fields = cast("Json", sent.get("metadata") or sent["requestMetadata"])
    return fields.get("user_id", fields.get("user"))


@pytest.mark.parametrize("user", ["a@example.org", "+49 170 1234567", "u" * 300])
@pytest.mark.parametrize("model", ANTHROPIC)
async def test_anthropic_is_not_told_who_the_user_is(rig: Rig, model: str, user: str) -> None:
    chat = await rig.chat(model, user=user)
    assert (chat.status_code, user_of(rig.sent)) == (200, hashed(user)), chat.text

    messages = await rig.messages(model, metadata={"user_id": user})
    assert (messages.status_code, user_of(rig.sent)) == (200, hashed(user)), messages.text
    assert repairs(messages)[0].startswith("metadata.user_id:")


@pytest.mark.parametrize("user", ["u-1", "12345678", CODING_TOOL])
@pytest.mark.parametrize("model", ANTHROPIC)
async def test_other_names_are_sent_as_they_are(rig: Rig, model: str, user: str) -> None:
    answer = await rig.messages(model, metadata={"user_id": user})

    assert (answer.status_code, user_of(rig.sent), repairs(answer)) == (200, user, [])


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        (CODING_TOOL, hashed(CODING_TOOL)),
        ("Zoë", hashed("Zoë")),
        ("u" * 257, hashed("u" * 257)),
        ("a@example.org", "a@example.org"),
    ],
)
async def test_bedrocks_labels_have_few_characters(rig: Rig, user: str, sent: str) -> None:
    answer = await rig.messages("bedrock", metadata={"user_id": user})

    assert (answer.status_code, user_of(rig.sent)) == (200, sent), answer.text
    assert bool(repairs(answer)) is (user != sent)


async def test_metadata_that_is_no_label_is_left_out(rig: Rig) -> None:
    given = {"turn": 5, "team": "blue", "state": '{"a": 1}', "naïve": "x"}
    answer = await rig.chat("bedrock", metadata=given)

    assert answer.status_code == 200, answer.text
    assert rig.sent["requestMetadata"] == {"turn": "5", "team": "blue"}
    assert "metadata:odd_metadata" in repairs(answer)
    assert dropped(answer) == ["metadata"]


@given(
    user=st.text(max_size=300),
    metadata=st.dictionaries(
        st.text(max_size=20), st.one_of(st.text(max_size=300), st.integers()), max_size=20
    ),
)
def test_bedrock_takes_all_labels(user: str, metadata: dict[str, str | int]) -> None:
    request = ChatRequest(
        "m",
        (Message(role="user", content="hi"),),
        user=user,
        metadata=Raw(json.dumps(metadata).encode()),
    )
    found = repaired(request, FORM_REPAIRS, Aim(model="amazon.nova-pro-v1:0")).request

    assert isinstance(found, ChatRequest)
    raw = bytes(found.metadata) if isinstance(found.metadata, Raw) else b"{}"
    kept = cast("Json", json.loads(raw))
    texts: list[object] = [found.user, *kept, *kept.values()]
    assert all(is_label(one) for one in texts)
    assert len(kept) < 16


def is_label(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(LABEL, text) is not None


async def talks(request: Received, answer: Answer) -> None:
    """Stream a text with an empty line in it, and then wait for the reader."""
    if request.path.endswith("converse-stream"):
        await answer.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for frame in (starts(), *[delta(0, {"text": piece}) for piece in PIECES]):
            await answer.chunk(frame)
    else:
        await answer.begin_stream()
        block = {"type": "text", "text": ""}
        usage = {"input_tokens": 1, "output_tokens": 1}
        message: Json = {"id": "m", "role": "assistant", "usage": usage}
        await answer.event({"type": "message_start", "message": message})
        await answer.event({"type": "content_block_start", "index": 0, "content_block": block})
        for piece in PIECES:
            step = {"type": "text_delta", "text": piece}
            await answer.event({"type": "content_block_delta", "index": 0, "delta": step})
    await answer.gone.wait()


@pytest.mark.parametrize("surface", ["chat", "messages"])
@pytest.mark.parametrize("model", [*ANTHROPIC, "bedrock"])
async def test_white_space_ends_an_answer_in_the_gateway(
    rig: Rig, model: str, surface: str
) -> None:
    before, rig.vendor.behaviour = rig.vendor.behaviour, talks
    name = "stop" if surface == "chat" else "stop_sequences"
    send = rig.chat if surface == "chat" else rig.messages
    try:
        answer = await send(model, **{name: ["\n\n", "END"]})
    finally:
        rig.vendor.behaviour = before

    assert answer.status_code == 200, answer.text
    config = cast("Json", rig.sent.get("inferenceConfig", rig.sent))
    assert config.get("stop_sequences", config.get("stopSequences")) == ["END"]
    assert f"{name}:blank_stop" in repairs(answer)
    assert "one" in answer.text
    assert "two" not in answer.text


async def test_other_makers_models_take_white_space(rig: Rig) -> None:
    answer = await rig.chat("bedrock/amazon.nova-pro-v1:0", stop=["\n\n"])

    assert answer.status_code == 200, answer.text
    assert cast("Json", rig.sent["inferenceConfig"])["stopSequences"] == ["\n\n"]
