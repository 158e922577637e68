"""Comparison of answers: what counts as the same answer."""

import struct
from base64 import b64encode

import pytest

from strowger_gateway.gateway.experiments.mirror.comparison import Comparison, compared
from strowger_gateway.schemas.answers import Answer, Embeddings, Fold
from strowger_gateway.schemas.events import Event, Finished, TextDelta, Tokens, ToolDelta


def answer(text: str = "", *events: Event) -> Answer:
    fold = Fold()
    if text:
        fold.add([TextDelta(text=text)])
    fold.add([*events, Finished(reason="tool_calls" if events else "stop")])
    return fold.answer()


def call(name: str, arguments: str) -> ToolDelta:
    return ToolDelta(tool=0, id="1", name=name, arguments=arguments)


def test_the_same_prose_is_the_same_text_and_no_json() -> None:
    found = compared(answer("Hello."), answer("Hello."))

    assert found == Comparison(same_text=True, same_finish=True, characters=6, mirror_characters=6)


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        ('{ "b": [1, true], "a": "x" }', True),
        ('{"a": "x", "b": [1, false]}', False),
        ('{"a": "x", "b": [1, true]', False),
        ("I would say x.", False),
    ],
)
def test_json_is_compared_by_its_values(theirs: str, same: bool) -> None:
    found = compared(answer('{"a":"x","b":[1,true]}'), answer(theirs))

    assert (found.same_text, found.same_json) == (False, same)


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        (call("add", '{ "b": 2, "a": 1 }'), True),
        (call("add", '{"a": 1, "b": 3}'), False),
        (call("sub", '{"a": 1, "b": 2}'), False),
    ],
)
def test_calls_are_the_same_functions_with_the_same_arguments(
    theirs: ToolDelta, same: bool
) -> None:
    found = compared(answer("", call("add", '{"a":1,"b":2}')), answer("", theirs))

    assert found.same_calls is same


def test_a_call_where_the_other_only_talks_is_a_difference() -> None:
    found = compared(answer("I do not know."), answer("", call("add", "{}")))

    assert (found.same_calls, found.same_finish) == (False, False)


@pytest.mark.parametrize(
    ("theirs", "tokens", "text"),
    [
        (Tokens(ids=(5, 6), text="Hello."), True, True),
        (Tokens(ids=(5, 7), text="Hello!"), False, False),
        (Tokens(ids=(5, 6)), True, None),
        (TextDelta(text="Hello."), None, True),
    ],
)
def test_tokens_are_compared_by_id_and_their_text_only_where_both_know_it(
    theirs: Event, tokens: bool | None, text: bool | None
) -> None:
    ours = answer("", Tokens(ids=(5, 6), text="Hello."))

    found = compared(ours, answer("", theirs))

    assert (found.same_tokens, found.same_text) == (tokens, text)


def packed(*numbers: float) -> str:
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.mark.parametrize(
    ("theirs", "similarity"),
    [
        (([2.0, 0.0], [0.0, 3.0]), 1.0),
        ((packed(2.0, 0.0), packed(0.0, 3.0)), 1.0),
        (([1.0, 0.0], [1.0, 0.0]), 0.0),
        (([1.0, 0.0], [0.0, -1.0]), -1.0),
        (([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]), None),
    ],
)
def test_vectors_are_as_similar_as_the_least_similar_pair(
    theirs: tuple[list[float] | str, ...], similarity: float | None
) -> None:
    found = compared(
        Embeddings(vectors=([1.0, 0.0], [0.0, 1.0])), Embeddings(vectors=theirs)
    ).similarity

    assert found == (None if similarity is None else pytest.approx(similarity))
