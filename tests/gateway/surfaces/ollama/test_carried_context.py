"""The conversation of a prompt comes back from its integers as it was, and nothing else does."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.gateway.surfaces.ollama.carried_context import MARK, MOST, read, written
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message
from tests.examples import examples

_encode = msgspec.json.encode
TURNS = st.lists(
    st.tuples(
        st.sampled_from(["system", "user", "assistant"]),
        st.text(st.characters(exclude_categories=["Cs"])),
    )
)


@settings(max_examples=examples(100))
@given(TURNS)
def test_a_conversation_comes_back_as_it_was(turns: list[tuple[str, str]]) -> None:
    context = written(turns)

    assert context is not None
    assert all(0 <= one < 2**31 for one in context), "clients keep integers of 32 bits"
    found = read(Raw(_encode(context)))
    assert found == tuple([Message(role=role, content=text) for role, text in turns])  # pyright: ignore[reportArgumentType]  of the three


@settings(max_examples=examples(100))
@given(st.lists(st.integers(-(2**40), 2**40)))
def test_integers_without_the_mark_are_a_servers_and_none_begin_anything(
    numbers: list[int],
) -> None:
    kept = [one for one in numbers if one != MARK]
    assert read(Raw(_encode(kept))) == (None if kept else ())


@settings(max_examples=examples(100))
@given(st.lists(st.integers(-(2**40), 2**40)))
def test_integers_with_the_mark_are_a_conversation_or_refused_by_name(numbers: list[int]) -> None:
    # Any other exception, and any other field, fails.
    with suppress(InvalidRequest):
        found = read(Raw(_encode([MARK, *numbers])))
        assert found is not None


def test_a_long_conversation_is_not_carried() -> None:
    assert written([("user", "x" * MOST)]) is not None
    assert written([("user", "x" * (MOST + 1))]) is None
    assert written([("user", "\x00" * (MOST // 2))]) is None, "escapes make it long"


@pytest.mark.parametrize("body", [b'"text"', b"{}", b"[1.5]", b'["1"]', b"[[1]]"])
def test_what_is_no_list_of_integers_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the list of integers"):
        read(Raw(body))
