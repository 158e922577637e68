"""A vendor's SDK reads an answer through the gateway as it does from the vendor.

Only what the lists of the dialects name differs, and each entry of them still occurs.
"""

from pathlib import Path

import pytest

from tests.adapters.traffic import FIXTURES, RECORDINGS
from tests.identity import (
    chat_dialect,
    embeddings_dialect,
    gemini_dialect,
    messages_dialect,
    ollama_dialect,
    responses_dialect,
)
from tests.identity.differences import differences, unexplained, unused
from tests.identity.recorded import Dialect, read_all

DIALECTS = (
    *chat_dialect.DIALECTS,
    *embeddings_dialect.DIALECTS,
    *gemini_dialect.DIALECTS,
    *messages_dialect.DIALECTS,
    *ollama_dialect.DIALECTS,
    *responses_dialect.DIALECTS,
)


def answers(root: Path) -> list[object]:
    return [
        pytest.param(dialect, case.model, id=f"{dialect.name} {case.recording.name}")
        for dialect in DIALECTS
        for case in dialect.cases(root)
    ]


@pytest.mark.parametrize(("dialect", "model"), answers(FIXTURES))
def test_an_answer_is_the_same_through_the_gateway(dialect: Dialect, model: str) -> None:
    read = read_all(dialect, FIXTURES)[model]

    assert unexplained(read.direct, read.ours, dialect.differences) == []


@pytest.mark.nightly
@pytest.mark.parametrize(("dialect", "model"), answers(RECORDINGS))
def test_a_recorded_answer_is_the_same_through_the_gateway(dialect: Dialect, model: str) -> None:
    read = read_all(dialect, RECORDINGS)[model]

    known = (*dialect.differences, *dialect.rare)
    assert unexplained(read.direct, read.ours, known) == []


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_each_known_difference_still_occurs(dialect: Dialect) -> None:
    found = [
        each
        for one in read_all(dialect, FIXTURES).values()
        for each in differences(one.direct, one.ours)
    ]

    assert unused(found, dialect.differences) == []


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_both_forms_of_an_answer_are_compared(dialect: Dialect) -> None:
    forms = {case.recording.streamed for case in dialect.cases(FIXTURES)}

    assert forms == ({False} if dialect.task == "embeddings" else {False, True})


@pytest.mark.parametrize(
    ("direct", "ours"),
    [
        ({"a": [1, 2]}, {"a": [1]}),
        ({"a": {"b": "x"}}, {"a": {}}),
        ({}, {"c": 0}),
        ([{"a": 1}], [{"a": True, "b": 2}]),
    ],
)
def test_a_difference_is_found_wherever_it_is(direct: object, ours: object) -> None:
    assert unexplained(direct, ours, ())
    assert not unexplained(direct, direct, ())
