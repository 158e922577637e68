"""Content that is a JSON value instead of text, as Workers AI's JSON mode sends it."""

import msgspec
import pytest

from strowger_gateway.schemas.events import TextDelta
from tests.adapters.openai.openai_doubles import delta, message, streamed, whole

VALUES: tuple[object, ...] = (
    {"name": "Emily Wilson", "age": 32},
    {},
    {"text": "x"},
    [1, 2],
    ["a", "b"],
    [{"name": "Emily"}, {"name": "Ann"}],
    5,
    -1.5,
    True,
    False,
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_json_value_in_place_of_text_is_its_json_text(value: object) -> None:
    text = msgspec.json.encode(value).decode()

    for found in (
        whole(message({"role": "assistant", "content": value, "refusal": None})),
        streamed(delta({"role": "assistant", "content": value}), delta({}, "stop")),
    ):
        assert [one for one in found if isinstance(one, TextDelta)] == [TextDelta(text=text)]


def test_numbers_in_a_stream_are_pieces_of_the_text() -> None:
    pieces = ("a: ", 1, 2, "!")
    found = streamed(*(delta({"content": piece}) for piece in pieces), delta({}, "stop"))

    assert "".join(one.text for one in found if isinstance(one, TextDelta)) == "a: 12!"


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "text", "text": "Tea."}],
        [{"text": "Tea."}],
        [{"type": "thinking", "thinking": "Hot."}, {"type": "text", "text": "Tea."}],
    ],
)
def test_a_list_of_parts_is_still_a_list_of_parts(parts: list[object]) -> None:
    found = whole(message({"content": parts}))

    assert [one.text for one in found if isinstance(one, TextDelta)] == ["Tea."]


def test_an_empty_list_of_parts_is_no_text() -> None:
    assert not [one for one in whole(message({"content": []})) if isinstance(one, TextDelta)]
