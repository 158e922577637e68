"""A vendor's `usage` next to ours: every member is kept, and none replaces ours."""

import json
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.gateway.surfaces.openai.usage import (
    MAX_BYTES,
    embeddings_usage_json,
    usage_json,
)
from strowger_gateway.schemas.events import Usage

COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
DETAILS = ("prompt_tokens_details", "completion_tokens_details")
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
NAMES = st.sampled_from([*COUNTS, *DETAILS, "cached_tokens"]) | st.text(max_size=8)


def objects(values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(NAMES, values, max_size=5)


VALUES = st.recursive(LEAVES, lambda one: st.lists(one, max_size=3) | objects(one), max_leaves=6)


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


@given(theirs=objects(VALUES), prompt=st.integers(0, 2**31 - 1), cached=st.none() | st.just(1))
def test_all_members_of_a_vendors_usage_are_there_and_ours_stay_ours(
    theirs: dict[str, object], prompt: int, cached: int | None
) -> None:
    usage = Usage(prompt_tokens=prompt, completion_tokens=2, cached_tokens=cached, raw=raw(theirs))

    reported = json.loads(usage_json(usage))

    assert [reported[name] for name in COUNTS] == [prompt, 2, prompt + 2]
    beside = {name: value for name, value in theirs.items() if name not in (*COUNTS, *DETAILS)}
    assert reported.items() >= beside.items()
    for name in DETAILS:
        details = theirs.get(name)
        expected = cast("dict[str, object]", details) if isinstance(details, dict) else {}
        if name == DETAILS[0] and cached is not None:
            expected = {**expected, "cached_tokens": cached}
        assert reported.get(name, {}) == expected


@given(theirs=objects(VALUES))
def test_all_members_of_an_embeddings_usage_are_there_too(theirs: dict[str, object]) -> None:
    reported = json.loads(embeddings_usage_json(Usage(prompt_tokens=3, raw=raw(theirs))) or b"")

    beside = {name: value for name, value in theirs.items() if name not in COUNTS}
    assert reported == {**beside, "prompt_tokens": 3, "total_tokens": 3}


def test_of_a_usage_that_is_too_large_only_the_counts_go_on() -> None:
    ours = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    note = "x" * (MAX_BYTES - len('{"note": ""}'))

    fits, large = (
        json.loads(usage_json(Usage(prompt_tokens=1, completion_tokens=2, raw=raw({"note": text}))))
        for text in (note, note + "x")
    )

    assert fits == {**ours, "note": note}
    assert large == ours
