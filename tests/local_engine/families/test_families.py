"""Every kind of model that transformers can generate with is served rightly or refused clearly."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from tests.local_engine.families.measure import Outcome
from tests.local_engine.families.page import PAGE, read_page, reason_of
from tests.local_engine.families.random_models import families
from tests.local_engine.families.sweep import sweep
from tests.local_engine.tiny import FAMILIES

ASKED: Final = os.environ.get("STROWGER_FAMILIES", "").split()
"""`make nightly-families FAMILIES="llama gemma3"`; all without."""

FOREIGN: Final = re.compile(r"\b\w*(Error|Exception)\b|object has no attribute|NoneType|subscript")
"""What Python or torch says, which tells an operator nothing."""


@pytest.fixture(scope="module")
def outcomes() -> Sequence[Outcome]:
    return sweep(ASKED or families(), report=lambda one: print(one.family, one.kind, one.detail))


@pytest.fixture(scope="module")
def listed() -> Mapping[str, str]:
    return read_page(PAGE.read_text("utf-8"))


def test_the_page_lists_every_kind_of_model_that_generates(listed: Mapping[str, str]) -> None:
    assert sorted(listed) == sorted(families())


def test_the_page_says_of_the_families_of_every_run_that_they_are_served(
    listed: Mapping[str, str],
) -> None:
    """Their tokens are those of transformers, which `test_equality.py` shows in every run."""
    assert {family: listed[family] for family in FAMILIES} == dict.fromkeys(FAMILIES, "")


def test_the_page_gives_reasons_in_words_of_this_engine(listed: Mapping[str, str]) -> None:
    reasons = {reason for reason in listed.values() if reason}

    assert 5 < len(reasons) < 25
    assert [reason for reason in reasons if FOREIGN.search(reason)] == []


@pytest.mark.nightly
def test_no_kind_of_model_is_served_wrongly(outcomes: Sequence[Outcome]) -> None:
    assert [one for one in outcomes if one.kind not in ("equal", "refused")] == []


@pytest.mark.nightly
def test_the_page_is_what_was_measured(
    outcomes: Sequence[Outcome], listed: Mapping[str, str]
) -> None:
    measured = {one.family: reason_of(one) if one.kind == "refused" else "" for one in outcomes}

    assert measured == {family: listed[family] for family in measured}
