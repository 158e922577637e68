"""Gemini's signature of a call is on the thought before it, or in the call's id."""

import json

import pytest

from strowger_gateway.gateway.surfaces.anthropic.parse import parse_messages
from strowger_gateway.gateway.surfaces.anthropic.proofs import plain_id, signed_id, unsigned_id
from strowger_gateway.schemas.events import Event, ReasoningDelta, TextDelta, ToolDelta
from strowger_gateway.schemas.messages import CLAUDE, GEMINI, Thought, thoughts_of
from strowger_gateway.schemas.requests import ChatRequest
from tests.gateway.surfaces.anthropic.test_messages_streams import found

SIGNATURE = "Cq+/AQ=="
CALL = ToolDelta(tool=0, id="call_1", name="f", arguments="{}", signature=SIGNATURE)
CARRIED = "call_1__thought__Cq-_AQ"


def thought(text: str, signature: str = "", block: int = 0, format: str = GEMINI) -> ReasoningDelta:
    return ReasoningDelta(text=text, signature=signature, block=block, format=format)


def named(id: str) -> dict[str, object]:
    return {"type": "tool_use", "id": id, "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("events", "blocks"),
    [
        (
            [thought("Let me "), thought("think."), CALL],
            [
                {
                    "type": "thinking",
                    "thinking": "Let me think.",
                    "signature": f"{GEMINI}:call:call_1:{SIGNATURE}",
                },
                named("call_1"),
            ],
        ),
        ([CALL], [named(CARRIED)]),
        (
            [thought("Hm."), TextDelta(text="I look."), CALL],
            [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "text", "text": "I look."},
                named(CARRIED),
            ],
        ),
        (
            [thought("Hm.", "c2ln", format=CLAUDE), CALL],
            [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, named(CARRIED)],
        ),
    ],
    ids=["a thought", "nothing", "a text", "a signed thought"],
)
def test_a_signature_is_where_clients_keep_it_whatever_is_before_the_call(
    events: list[Event], blocks: list[dict[str, object]]
) -> None:
    assert found(*events) == blocks


def test_only_the_first_of_several_calls_signs_the_thought() -> None:
    second = ToolDelta(tool=1, id="call_2", name="f", arguments="{}", signature=SIGNATURE)

    blocks = found(thought("Hm."), CALL, second)

    assert blocks[1:] == [named("call_1"), named("call_2__thought__Cq-_AQ")]


def conversation(*blocks: dict[str, object], result: str) -> ChatRequest:
    results = [{"type": "tool_result", "tool_use_id": result, "content": "9"}]
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": list(blocks)},
            {"role": "user", "content": results},
        ],
    }
    request = parse_messages(json.dumps(body).encode())
    assert isinstance(request, ChatRequest)
    return request


def test_a_signature_in_an_id_returns_to_its_call_and_is_not_in_the_clients_json() -> None:
    request = conversation(named(CARRIED), result=CARRIED)
    _, made, result = request.messages

    assert [(one.id, one.signature) for one in made.tool_calls] == [("call_1", SIGNATURE)]
    assert result.tool_call_id == "call_1"
    assert request.original is not None
    assert "messages" not in request.original.fields


def test_a_signed_thought_keeps_its_text() -> None:
    block: dict[str, object] = {
        "type": "thinking",
        "thinking": "Hm.",
        "signature": f"{GEMINI}:call:call_1:{SIGNATURE}",
    }
    made = conversation(block, named("call_1"), result="call_1").messages[1]

    assert thoughts_of(made) == (Thought(text="Hm."),)
    assert made.tool_calls[0].signature == SIGNATURE


@pytest.mark.parametrize("signature", ["", "AA==", "AAA=", "AAAA", "+/+/", "Cq+/AQ=="])
def test_base64_survives_an_id(signature: str) -> None:
    assert plain_id(signed_id("call_1", signature)) == (
        ("call_1", signature) if signature else ("call_1__thought__", "")
    )


@pytest.mark.parametrize(
    "id", ["call_1", "a__thought__", "__thought__AAAA", "a__thought__A", "a__thought__é"]
)
def test_other_ids_stay_as_they_are(id: str) -> None:
    assert plain_id(id) == (id, "")
    assert signed_id("with:colon", "AAAA") == signed_id("a", "not base64") == ""


@pytest.mark.parametrize(
    "id", [CARRIED, "call_1", "a__thought__", f"{CARRIED}__thought__", "__thought____thought__"]
)
def test_an_id_of_a_vendor_with_a_signature_in_it_returns_to_the_vendor_as_it_was(id: str) -> None:
    (written,) = found(ToolDelta(tool=0, id=id, name="f", arguments="{}"))
    returned = str(written["id"])
    _, made, result = conversation(named(returned), result=returned).messages

    assert [(one.id, one.signature) for one in made.tool_calls] == [(id, "")]
    assert result.tool_call_id == id
    assert plain_id(unsigned_id(id)) == (id, "")
    assert plain_id(signed_id(id, SIGNATURE)) == (id, SIGNATURE)
