"""Texts of a request are replaced in every form in which it is kept."""

import msgspec

from strowger_gateway.gateway.content.hooks.request_text import texts_of, with_texts
from strowger_gateway.gateway.surfaces.anthropic.surface import MessagesSurface
from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.responses.surface import ResponsesSurface
from strowger_gateway.schemas.requests import ChatRequest

SECRET = "AKIA" + "Q3" * 8


def test_the_input_of_a_tool_call_has_no_field_that_is_skipped() -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"name": SECRET, "data": [SECRET]}}
    body = {
        "model": "m",
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                                          "content": "ok"}]},
        ],
    }  # fmt: skip
    request = MessagesSurface().parse(Inbound(body=msgspec.json.encode(body), max_choices=1))
    changes = {
        text: text.replace(SECRET, "[secret]") for text in texts_of(request) if SECRET in text
    }
    masked = with_texts(request, changes)
    assert SECRET.encode() in msgspec.json.encode(request)
    assert SECRET.encode() not in msgspec.json.encode(masked)


def test_what_is_stored_of_a_response_is_masked() -> None:
    body = {"model": "m", "input": f"mine is {SECRET}", "store": True}
    surface = ResponsesSurface()
    inbound = Inbound(body=msgspec.json.encode(body), max_choices=1, stores=True)
    request = surface.parse(inbound)
    changes = {text: "[secret]" for text in texts_of(request) if SECRET in text}
    masked = with_texts(request, changes)
    assert isinstance(masked, ChatRequest)
    assert masked.original is not None
    assert masked.original.storage is not None
    assert bytes(masked.original.storage.input) == b'"[secret]"'
    assert masked.messages is masked.original.read.messages
