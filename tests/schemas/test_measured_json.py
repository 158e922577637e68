"""What is measured bounds what is decoded, whatever the text is."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.schemas.measured_json import (
    ANSWER,
    BODY,
    DIRECT,
    MOST_EXAMINED,
    Complexity,
    JsonPieces,
    Limits,
    Meter,
    NotJson,
    TooComplex,
    kind_of_json,
    measure,
    read_json,
    repeated_name,
)

SMALL = Limits(fields=3, containers=3, strings=5, values=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)
NEARLY_JSON = st.text(alphabet='{}[]",:\\u0e1 ', max_size=60)


class Count:
    """What a decoded value has."""

    def __init__(self, value: object) -> None:
        self.fields = self.containers = self.strings = self.values = 0
        self._add(value)

    def _add(self, value: object) -> None:
        self.values += 1
        match value:
            case str():
                self.strings += 1
            case list():
                self.containers += 1
                for one in value:  # pyright: ignore[reportUnknownVariableType]
                    self._add(one)  # pyright: ignore[reportUnknownArgumentType]
            case dict():
                self.containers += 1
                self.fields += len(value)  # pyright: ignore[reportUnknownArgumentType]
                for name, one in value.items():  # pyright: ignore[reportUnknownVariableType]
                    self._add(name)  # pyright: ignore[reportUnknownArgumentType]
                    self._add(one)  # pyright: ignore[reportUnknownArgumentType]
            case _:
                pass


@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_a_value_has_no_more_than_was_measured(
    value: object, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    has = Count(value)

    for source in (text, text.encode()):
        weight = measure(source, len(source))
        assert (weight.fields, weight.containers, weight.strings) == (
            has.fields,
            has.containers,
            has.strings,
        )
        assert has.values <= weight.values + weight.containers + weight.fields
        assert weight.size >= 40 * has.values // 2


@given(NEARLY_JSON | st.text(max_size=40), st.binary(max_size=40))
def test_nothing_else_than_its_own_error_is_raised(text: str, raw: bytes) -> None:
    for source in (text, text.encode(errors="replace"), raw):
        with suppress(TooComplex):
            measure(source, len(source), SMALL)
        try:
            value = read_json(source)
        except NotJson:
            assert kind_of_json(text) == "" or source is raw
        else:
            assert msgspec.json.encode(value)


@given(JSON)
def test_the_kind_of_a_value_is_its_first_character(value: object) -> None:
    text = json.dumps(value)
    kind = kind_of_json(f" \n{text}\t")

    assert kind == text[0]
    assert (kind == "{") == isinstance(value, dict)


@given(JSON, st.integers(1, 5))
def test_json_in_pieces_is_complete_with_its_last_piece(value: object, size: int) -> None:
    text = json.dumps([value])
    pieces = JsonPieces()
    for at in range(0, len(text), size):
        pieces.append(text[at : at + size])
        assert pieces.kind() == ("[" if at + size >= len(text) else "")


def test_examining_pieces_again_and_again_ends() -> None:
    pieces = JsonPieces()
    pieces.append("[" + " " * 1_000_000)
    for _ in range(MOST_EXAMINED // 1_000_000 + 1):
        assert pieces.kind() == ""
    pieces.append("]")

    assert pieces.kind() == ""
    assert kind_of_json("".join(pieces)) == "["


@given(st.lists(JSON, max_size=6))
def test_the_limits_hold_for_all_texts_of_a_meter_together(values: list[object]) -> None:
    meter, total = Meter(SMALL), Complexity(values=0)
    try:
        for value in values:
            text = json.dumps(value)
            weight = measure(text, len(text))
            total.fields += weight.fields
            total.containers += weight.containers
            total.strings += weight.strings
            meter.add(text)
    except TooComplex:
        assert (
            total.fields > SMALL.fields
            or total.containers > SMALL.containers
            or total.strings > SMALL.strings
            or meter.weight.values > SMALL.values
        )
    else:
        assert total.fields <= SMALL.fields
        assert total.containers <= SMALL.containers


def test_many_short_texts_are_measured_as_one_long_text_is() -> None:
    meter = Meter()
    text = json.dumps([[]] * 10_000)

    for _ in range(BODY.containers // 10_001 + DIRECT // len(text)):
        meter.decode(text)
    with pytest.raises(TooComplex, match="more than 50000 objects and lists"):
        meter.decode(text * 3)
    with pytest.raises(NotJson, match="more than 50000 objects and lists"):
        read_json(json.dumps([[]] * (BODY.containers + 1)))


def test_a_name_that_is_repeated_late_is_found_in_little_time() -> None:
    """It took time by the square of the number of names."""
    names = [f'"n{number}": 0' for number in range(49_000)]

    assert repeated_name(("{" + ",".join([*names, names[-1]]) + "}").encode()) == "n48999"


def test_log_probabilities_do_not_count_in_an_answer() -> None:
    tokens = '{"token":"a","logprob":-1,"bytes":[97]},' * 100_000
    measure(tokens, len(tokens), ANSWER)

    with pytest.raises(TooComplex):
        measure(tokens, len(tokens), BODY)
    with pytest.raises(TooComplex):
        measure(tokens.replace("logprob", "chance"), len(tokens), ANSWER)
