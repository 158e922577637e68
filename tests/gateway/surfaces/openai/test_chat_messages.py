"""Messages of a conversation, and their typed view."""

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.schemas.messages import AudioPart, ImagePart, OpaquePart, TextPart, ToolCall
from tests.gateway.surfaces.bodies import HELLO, chat, message, refused

CALL: dict[str, object] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": '{"a":1}'},
}
PNG = "data:image/png;base64,iVBORw0KGgo="


def json(raw: Raw | UnsetType) -> object:
    assert isinstance(raw, Raw)
    return msgspec.json.decode(raw)


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_a_message_of_text_has_a_role_and_its_text(role: str) -> None:
    read = message(role=role, content="hello", name="ann")

    assert (read.role, read.content, read.name) == (role, "hello", "ann")
    assert read.tool_calls == ()


def test_a_message_keeps_what_the_client_sent() -> None:
    sent: dict[str, object] = {**HELLO, "cache_control": {"type": "ephemeral"}}

    assert json(message(**sent).raw) == sent


def test_a_call_without_a_type_is_sent_as_a_functions() -> None:
    untyped = {name: one for name, one in CALL.items() if name != "type"}
    other = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": ""}}

    read = message(role="assistant", content=None, tool_calls=[untyped, other])

    assert json(read.raw) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", **untyped}, other],
    }
    assert [one.id for one in read.tool_calls] == ["c1"]


def test_messages_stay_in_order() -> None:
    request = chat(messages=[{**HELLO, "content": str(turn)} for turn in range(5)])

    assert [read.content for read in request.messages] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("role", ["User", "robot", "", 5, None])
def test_an_unknown_role_is_refused(role: object) -> None:
    error = refused(chat, messages=[HELLO, {"role": role, "content": "x"}])

    assert error.param == "messages[1].role"
    assert "one of system, developer, user, assistant, tool" in error.message


def test_a_message_without_a_role_is_refused() -> None:
    error = refused(chat, messages=[{"content": "x"}])

    assert error.param == "messages[0].role"
    assert error.message == "messages[0].role is required"


@pytest.mark.parametrize("value", ["hello", 5, None, ["hello"]])
def test_a_message_is_an_object(value: object) -> None:
    error = refused(chat, messages=[HELLO, value])

    assert error.param == "messages[1]"


@pytest.mark.parametrize("role", ["system", "developer", "user"])
@pytest.mark.parametrize("fields", [{}, {"content": None}])
def test_content_is_required(role: str, fields: dict[str, object]) -> None:
    error = refused(message, role=role, **fields)

    assert error.param == "messages[0].content"
    assert error.message == f"messages[0].content is required in a message of role {role}"


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_everybody_may_have_said_nothing(role: str) -> None:
    read = message(role=role, content="", tool_call_id="c1")

    assert read.content == ""


@pytest.mark.parametrize(
    ("role", "content"), [("user", ()), ("system", ()), ("tool", ()), ("tool", None)]
)
def test_content_without_anything_is_an_empty_text(role: str, content: object) -> None:
    read = message(role=role, content=content, tool_call_id="c1")

    assert read.content == ""
    assert isinstance(read.raw, Raw)
    assert msgspec.json.decode(read.raw)["content"] == ""


@pytest.mark.parametrize("content", [5, True, {"type": "text", "text": "x"}])
def test_content_is_a_string_or_a_list(content: object) -> None:
    error = refused(message, role="user", content=content)

    assert error.param == "messages[0].content"
    assert error.message == "messages[0].content must be a string or a list of parts"


def test_text_parts_become_text() -> None:
    part: dict[str, object] = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}

    read = message(role="user", content=[part])

    assert isinstance(read.content, tuple)
    (text,) = read.content
    assert isinstance(text, TextPart)
    assert text.text == "hi"
    assert json(text.raw) == part


@pytest.mark.parametrize("url", ["https://a.test/b.png", "HTTP://a.test/b.png", PNG])
def test_image_parts_become_images(url: str) -> None:
    read = message(role="user", content=[{"type": "image_url", "image_url": {"url": url}}])

    assert isinstance(read.content, tuple)
    (image,) = read.content
    assert isinstance(image, ImagePart)
    assert (image.url, image.detail) == (url, UNSET)


def test_an_image_may_say_how_closely_to_look() -> None:
    image: dict[str, object] = {"url": PNG, "detail": "low"}

    read = message(role="user", content=[{"type": "image_url", "image_url": image}])

    assert isinstance(read.content, tuple)
    assert isinstance(read.content[0], ImagePart)
    assert read.content[0].detail == "low"


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "/etc/passwd", "", "gopher://x", "javascript:1"]
)
def test_an_image_is_fetched_only_from_the_web(url: str) -> None:
    error = refused(
        message,
        role="user",
        content=[{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": url}}],
    )

    assert error.param == "messages[0].content[1].image_url.url"
    assert "https:, http:, gs: or data:" in error.message


def test_audio_parts_become_audio() -> None:
    audio: dict[str, object] = {"data": "UklGRg==", "format": "wav"}

    read = message(role="user", content=[{"type": "input_audio", "input_audio": audio}])

    assert isinstance(read.content, tuple)
    (received,) = read.content
    assert isinstance(received, AudioPart)
    assert (received.data, received.format) == ("UklGRg==", "wav")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "video_url", "video_url": {"url": "https://a.test/v.mp4"}},
        {"type": "input_image", "image_url": "https://a.test/b.png"},
    ],
)
def test_parts_of_unknown_type_stay_as_they_came(part: dict[str, object]) -> None:
    read = message(role="user", content=[part])

    assert isinstance(read.content, tuple)
    (opaque,) = read.content
    assert isinstance(opaque, OpaquePart)
    assert opaque.type == part["type"]
    assert json(opaque.raw) == part


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "text"}, ".text"),
        ({"type": "text", "text": 5}, ".text"),
        ({"type": "text", "text": None}, ".text"),
        ({"type": "image_url"}, ".image_url"),
        ({"type": "image_url", "image_url": "ftp://a.test/b.png"}, ".image_url"),
        ({"type": "image_url", "image_url": 5}, ".image_url"),
        ({"type": "image_url", "image_url": {}}, ".image_url.url"),
        ({"type": "input_audio", "input_audio": {"data": "x"}}, ".input_audio.format"),
        (
            {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
            ".input_audio.data",
        ),
        ({"text": "x"}, ".type"),
        ({"type": ""}, ".type"),
        ({"type": 5}, ".type"),
        ("text", ""),
        (None, ""),
    ],
)
def test_a_part_that_cannot_be_read_is_named(part: object, path: str) -> None:
    error = refused(message, role="user", content=[{"type": "text", "text": "x"}, part])

    assert error.param == f"messages[0].content[1]{path}"


def test_an_assistant_may_only_have_called_tools() -> None:
    read = message(role="assistant", content=None, tool_calls=[CALL])

    assert read.content is None
    assert read.tool_calls == (ToolCall(id="c1", name="f", arguments='{"a":1}'),)


def test_an_assistant_may_have_spoken_and_called_tools() -> None:
    read = message(role="assistant", content="let me see", tool_calls=[CALL])

    assert read.content == "let me see"
    assert len(read.tool_calls) == 1


@pytest.mark.parametrize("calls", [None, ()])
@pytest.mark.parametrize("content", [None, ()])
def test_an_assistant_may_have_done_nothing(calls: object, content: object) -> None:
    read = message(role="assistant", content=content, tool_calls=calls)

    assert read.content is None
    assert json(read.raw) == {"role": "assistant", "content": None}


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_an_assistant_calls_tools(role: str) -> None:
    error = refused(message, role=role, content="x", tool_calls=[CALL], tool_call_id="c1")

    assert error.param == "messages[0].tool_calls"
    assert "assistant" in error.message


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ({**CALL, "id": None}, ".id"),
        ({"type": "function", "function": {"name": "f", "arguments": ""}}, ".id"),
        ({"id": "c1", "type": "function"}, ".function"),
        ({**CALL, "function": {"name": "f"}}, ".function.arguments"),
        ({**CALL, "function": {"name": "f", "arguments": {"a": 1}}}, ".function.arguments"),
        ({**CALL, "function": {"name": "", "arguments": ""}}, ".function.name"),
        ({**CALL, "type": None}, ".type"),
        ("f", ""),
    ],
)
def test_a_call_that_cannot_be_read_is_named(call: object, path: str) -> None:
    error = refused(message, role="assistant", tool_calls=[CALL, call])

    assert error.param == f"messages[0].tool_calls[1]{path}"


def test_a_call_without_a_type_is_a_function_call() -> None:
    call: dict[str, object] = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}

    assert message(role="assistant", tool_calls=[call]).tool_calls[0].name == "f"


@pytest.mark.parametrize("content", [None, "look:"])
def test_what_only_this_dialect_can_say_is_kept_where_others_will_refuse_it(
    content: str | None,
) -> None:
    custom: dict[str, object] = {
        "id": "c2",
        "type": "custom",
        "custom": {"name": "x", "input": "y"},
    }

    read = message(role="assistant", content=content, tool_calls=[CALL, custom])

    assert isinstance(read.content, tuple)
    opaque = read.content[-1]
    assert isinstance(opaque, OpaquePart)
    assert opaque.type == "custom"
    assert json(opaque.raw) == custom
    assert len(read.tool_calls) == 1
    assert [part.text for part in read.content if isinstance(part, TextPart)] == (
        [content] if content else []
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("audio", {"id": "audio_1"}), ("function_call", {"name": "f", "arguments": "{}"})],
)
def test_an_earlier_answer_in_another_form_needs_no_text(
    field: str, value: dict[str, object]
) -> None:
    read = message(role="assistant", content=None, **{field: value})

    assert isinstance(read.content, tuple)
    (opaque,) = read.content
    assert isinstance(opaque, OpaquePart)
    assert opaque.type == field
    assert json(opaque.raw) == value


def test_an_earlier_refusal_is_what_the_assistant_said() -> None:
    assert message(role="assistant", content=None, refusal="I will not").content == "I will not"


def test_a_refusal_part_is_what_the_assistant_said() -> None:
    read = message(role="assistant", content=[{"type": "refusal", "refusal": "no"}])

    assert isinstance(read.content, tuple)
    assert isinstance(read.content[0], TextPart)
    assert read.content[0].text == "no"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_earlier_thinking_comes_back_under_either_name(name: str) -> None:
    read = message(
        role="assistant", content="4", reasoning_signature="sig", **{name: "two and two"}
    )

    assert read.reasoning == "two and two"
    assert read.signature == "sig"


def test_an_answer_to_a_tool_call_names_the_call() -> None:
    read = message(role="tool", content="sunny", tool_call_id="c1")

    assert (read.role, read.content, read.tool_call_id) == ("tool", "sunny", "c1")


@pytest.mark.parametrize("fields", [{}, {"tool_call_id": None}])
def test_an_answer_to_no_call_is_refused(fields: dict[str, object]) -> None:
    error = refused(message, role="tool", content="sunny", **fields)

    assert error.param == "messages[0].tool_call_id"
    assert "is required in a message of role tool" in error.message


def test_the_deprecated_function_role_is_read() -> None:
    read = message(role="function", name="f", content=None)

    assert (read.role, read.name, read.content) == ("function", "f", None)
