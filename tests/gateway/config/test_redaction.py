"""Rules of redaction, as properties: what a rule covers is in no record, wherever it is."""

import json
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.redaction import Redactor
from strowger_gateway.gateway.config.schema.payloads import RedactRule
from strowger_gateway.gateway.observability.payloads.files import RotatedFile
from strowger_gateway.gateway.observability.payloads.joined_stream import joined_stream
from strowger_gateway.gateway.routing.request_record import CaptureBudget, CapturedPayload

SECRET = "sk-0123456789"
MARKED = Redactor([RedactRule(pattern="sk-[0-9]{10}", replacement="K")])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=20),
    st.tuples(st.text(max_size=5), st.text(max_size=5)).map(SECRET.join),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(trees)
def test_no_match_of_a_pattern_is_left_in_a_value(value: object) -> None:
    assert SECRET not in json.dumps(MARKED.value(value), ensure_ascii=False)


@given(trees)
def test_without_rules_a_value_stays_as_it_is(value: object) -> None:
    assert Redactor([]).value(value) == value


@given(st.lists(st.integers(0, 30), max_size=6), st.text(alphabet="ab ", max_size=10))
def test_a_value_that_a_stream_splits_anywhere_is_found(cuts: list[int], around: str) -> None:
    whole = f"{around}{SECRET}{around}"
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    events = [
        {"id": "c", "choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces
    ]
    frames = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)

    found = cast("dict[str, list[dict[str, dict[str, str]]]]", joined_stream(frames))
    assert found["choices"][0]["delta"]["content"] == whole
    assert MARKED.value(found) == {
        "id": "c",
        "choices": [{"index": 0, "delta": {"content": f"{around}K{around}"}}],
    }


def test_events_of_different_places_are_apart() -> None:
    frames = b"".join(
        b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n"
        for event in (
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text", "text": "a"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text", "text": "x"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text", "text": "a"}},
            {"type": "message_stop"},
        )
    )

    assert joined_stream(frames) == [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text", "text": "aa"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text", "text": "x"}},
        {"type": "message_stop"},
    ]


def test_the_arguments_of_tool_calls_are_joined_by_call() -> None:
    def call(index: int, arguments: str) -> bytes:
        piece = {"index": index, "function": {"arguments": arguments}}
        event = {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
        return b"data: " + json.dumps(event).encode() + b"\n\n"

    found = joined_stream(call(0, '{"a"') + call(1, "{}") + call(0, ":1}") + b"data: [DONE]\n\n")

    assert found == {
        "choices": [
            {
                "index": 0,
                "delta": {
                    "tool_calls": [
                        {"index": 0, "function": {"arguments": '{"a":1}'}},
                        {"index": 1, "function": {"arguments": "{}"}},
                    ]
                },
            }
        ]
    }


def test_frames_that_are_no_json_are_refused() -> None:
    with pytest.raises(ValueError, match="malformed"):
        joined_stream(b"data: {no\n\n")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("secret", {"a": [{"secret": "R", "b": 1}, {"b": {"secret": "R"}}]}),
        ("a[].b", {"a": [{"secret": "s", "b": "R"}, {"b": "R"}]}),
        ("a[0].b", {"a": [{"secret": "s", "b": "R"}, {"b": "R"}]}),
        ("a[].b.secret", {"a": [{"secret": "s", "b": 1}, {"b": {"secret": "R"}}]}),
        ("a[]", {"a": ["R", "R"]}),
    ],
)
def test_a_field_is_a_key_at_any_depth_or_a_path(field: str, expected: object) -> None:
    value = {"a": [{"secret": "s", "b": 1}, {"b": {"secret": "t"}}]}

    assert Redactor([RedactRule(field=field, replacement="R")]).value(value) == expected


def test_a_replacement_is_literal() -> None:
    redactor = Redactor([RedactRule(pattern="(a)", replacement=r"\1\0")])

    assert redactor.text("a") == r"\1\0"


def test_memory_that_is_used_up_costs_the_answer_and_not_the_request() -> None:
    budget = CaptureBudget(10)
    assert budget.take(6)
    captured = CapturedPayload(budget=budget, request=b"123456", request_bytes=6, held=6, parts=[])
    captured.add(b"123", streamed=True)
    captured.add(b"45", streamed=True)

    assert captured.too_large
    assert captured.parts == []
    assert captured.answer_bytes == 5
    captured.release()
    assert budget.held == 0


def test_files_are_rotated_by_size_and_only_so_many_are_kept(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path, 3, max_bytes=10, files=3)
    for number in range(5):
        file.write(b"line %d\n" % number)
    file.close()

    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {
        "payloads-3.jsonl": "line 4\n",
        "payloads-3.jsonl.1": "line 3\n",
        "payloads-3.jsonl.2": "line 2\n",
    }


def test_a_file_is_continued_after_a_restart(tmp_path: Path) -> None:
    for number in range(2):
        file = RotatedFile(tmp_path, 0, max_bytes=100, files=2)
        file.write(b"%d\n" % number)
        file.close()

    assert (tmp_path / "payloads-0.jsonl").read_text() == "0\n1\n"
