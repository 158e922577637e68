"""Bytes that are no Unicode text become U+FFFD, and the field is named."""

import json
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.surfaces.body_repair import lone_surrogates, repair_body
from tests.adapters.repairs.one_of_each import Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

HEADERS = {"authorization": "Bearer key-of-team-a-0123456789", "content-type": "application/json"}
CHAT = b'{"model":"%b","messages":[{"role":"user","content":"%b"}]}'
TURN = b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"%b"}]}'
CALL = b'{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}'
RESULT = (
    b'{"model":"openai","max_tokens":2048,"messages":[{"role":"user","content":"x"},'
    + CALL
    + b","
    + TURN
    + b"]}"
)


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("bytes")
    async with one_of_each(folder, "openai", "anthropic", "gemini") as one:
        yield one


async def post(rig: Rig, path: str, body: bytes) -> tuple[int, list[str], str]:
    answer = await rig.client.post(path, content=body, headers=HEADERS)
    return answer.status_code, repairs(answer), answer.text


@pytest.mark.parametrize(
    "cut", [rb"\ud83d", rb"\uDE00", rb"\ud83d\ud83d", rb"\ud83dA", rb"\\\ud83d"]
)
@pytest.mark.parametrize("model", [b"openai", b"anthropic", b"gemini"])
async def test_half_an_emoji_reaches_no_vendor(rig: Rig, model: bytes, cut: bytes) -> None:
    status, made, text = await post(rig, "/v1/chat/completions", CHAT % (model, b"bad " + cut))

    assert status == 200, text
    assert made == ["messages[].content:lone_surrogate"]
    received = json.loads(rig.vendor.requests[-1].body)
    assert "�" in json.dumps(received, ensure_ascii=False)
    json.dumps(received, ensure_ascii=False).encode()


async def test_it_is_named_as_the_client_names_it(rig: Rig) -> None:
    messages = await post(rig, "/v1/messages", RESULT % rb"cut \ud83d")
    responses = await post(rig, "/v1/responses", rb'{"model":"openai","input":"\ud83d"}')
    vectors = await post(rig, "/v1/embeddings", rb'{"model":"openai","input":["a \ud83d"]}')

    assert messages[:2] == (200, ["messages[].content[].content:lone_surrogate"])
    assert responses[:2] == (200, ["input:lone_surrogate"])
    assert vectors[:2] == (200, ["input[]:lone_surrogate"])


async def test_whole_emojis_and_escaped_backslashes_stay_as_they_are(rig: Rig) -> None:
    status, made, _ = await post(
        rig, "/v1/chat/completions", CHAT % (b"openai", rb"\ud83d\ude00 \\ud83d")
    )

    assert (status, made) == (200, [])
    assert rb"\\ud83d" in rig.vendor.requests[-1].body


async def test_both_faults_in_one_body_are_repaired(rig: Rig) -> None:
    values = CHAT % (b"openai", rb"caf" + b"\xe9" + rb" \ud83d")
    names = rb'{"caf' + b"\xe9" + rb'":1,' + (CHAT % (b"openai", rb"\ud83d"))[1:]

    texts, fields = [await post(rig, "/v1/chat/completions", one) for one in (values, names)]

    assert texts[0] == 200, texts
    assert {"messages[].content:invalid_utf8"} < {*texts[1]}
    assert fields[0] == 200, fields
    assert fields[1] == ["lone_surrogate", "invalid_utf8"]


async def test_bytes_that_are_not_utf8_are_replaced(rig: Rig) -> None:
    status, made, text = await post(
        rig, "/v1/chat/completions", CHAT % (b"openai", b"caf\xe9 \xed\xa0\xbd")
    )

    assert status == 200, text
    assert made == ["messages[].content:invalid_utf8"]
    assert "caf�".encode() in rig.vendor.requests[-1].body


async def test_a_byte_order_mark_is_removed(rig: Rig) -> None:
    status, made, text = await post(
        rig, "/v1/chat/completions", b"\xef\xbb\xbf" + CHAT % (b"openai", b"hi")
    )

    assert (status, made) == (200, ["byte_order_mark"]), text


async def test_a_large_body_is_repaired_too(rig: Rig) -> None:
    padding = b"x" * 300_000
    status, made, text = await post(
        rig, "/v1/chat/completions", CHAT % (b"openai", padding + rb"\ud83d")
    )

    assert (status, made) == (200, ["messages[].content:lone_surrogate"]), text


async def test_what_was_repaired_is_in_the_access_log(rig: Rig) -> None:
    await post(rig, "/v1/chat/completions", CHAT % (b"openai", rb"\ud83d"))

    assert rig.gateway.access_lines()[-1].repaired == ("messages[].content:lone_surrogate",)


async def test_other_faults_keep_their_errors(rig: Rig) -> None:
    status, _, text = await post(rig, "/v1/chat/completions", rb'{"model":"openai","\ud83d')

    assert status == 400
    assert "not valid JSON" in text


@given(st.text(st.characters(codec=None, categories=None), max_size=40), st.booleans())
def test_any_text_can_be_sent_after_repair(text: str, escaped: bool) -> None:
    body = json.dumps({"a": [{"b": text}]}, ensure_ascii=escaped or not text.isascii()).encode()

    done = repair_body(body)

    found = json.loads(done.body)["a"][0]["b"]
    found.encode()
    assert not lone_surrogates(done.body)
    assert len(done.body) == len(body)
    valid = "".join(one if not "\ud800" <= one <= "\udfff" else "�" for one in found)
    assert found == valid
    if not done.made:
        assert done.body == body
