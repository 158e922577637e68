"""Requests of the Messages API: what is read from them, and what is refused with its path."""

import json

import pytest

from strowger_gateway.gateway.surfaces.anthropic.parse import parse_messages
from strowger_gateway.gateway.surfaces.routes import parse_any
from strowger_gateway.schemas.errors import InvalidRequest

HI = {"role": "user", "content": "hi"}


def body(**fields: object) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 100, "messages": [HI], **fields}).encode()


INVALID: list[tuple[dict[str, object], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "thinking", "thinking": "x"}]}]},
        "messages[0].content[0]",
    ),
    (
        {"system": [{"type": "image", "source": {"type": "url", "url": "https://a.test"}}]},
        "system[0]",
    ),
    ({"max_tokens": 0}, "max_tokens"),
    ({"temperature": 1.5}, "temperature"),
    ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    (
        {
            "tools": [{"name": "f", "input_schema": {}}],
            "tool_choice": {"type": "tool", "name": "g"},
        },
        "tool_choice.name",
    ),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"metadata": {"user_id": 5}}, "metadata.user_id"),
]


@pytest.mark.parametrize(("fields", "path"), INVALID)
def test_an_invalid_field_is_refused_by_its_path(fields: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_messages(body(**fields))

    assert caught.value.param == path


@pytest.mark.parametrize("content", ["", []])
def test_a_user_may_say_nothing(content: object) -> None:
    request = parse_messages(body(messages=[{"role": "user", "content": content}]))

    assert [one.content for one in request.messages] == [""]


@pytest.mark.parametrize(("given", "read"), [(None, "{}"), ('{"a"', '"{\\"a\\""'), ([1], "[1]")])
def test_what_an_interrupted_call_was_made_with_is_read(given: object, read: str) -> None:
    call = {"type": "tool_use", "id": "a", "name": "f", "input": given}
    request = parse_messages(body(messages=[HI, {"role": "assistant", "content": [call]}]))

    assert [one.arguments for one in request.messages[1].tool_calls] == [read]


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [(20, "low"), (35, "low"), (50, "medium"), (66, "high"), (99, "high")],
)
def test_a_budget_is_an_effort_by_its_share(thinking: int, effort: str) -> None:
    config = {"type": "enabled", "budget_tokens": thinking}

    assert parse_messages(body(thinking=config)).reasoning_effort == effort


def test_a_body_with_a_field_of_this_api_alone_is_known_as_its_own() -> None:
    assert parse_any(body(system="Be kind.")).surface == "anthropic"
    assert parse_any(body()).surface == "openai"
