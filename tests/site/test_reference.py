"""The reference pages say what the code does, and tests produce what they list."""

from pathlib import Path

import pytest

from tools.reference.error_codes import raised
from tools.reference.errors import meanings
from tools.reference.pages import PAGES

ROOT = Path(__file__).parents[2]
NO_WIRE = ("tests/gateway/config", "tests/adapters", "tests/local_engine", "tests/site")
"""Folders whose tests name codes, but get no answers of a gateway."""


@pytest.mark.parametrize("place", PAGES)
def test_a_reference_page_is_as_the_code_has_it(place: str) -> None:
    assert (ROOT / place).read_text("utf-8") == PAGES[place](), "run `make reference`"


def test_every_code_that_clients_can_get_is_in_the_answers_of_some_test() -> None:
    tests = [
        path.read_text("utf-8")
        for path in (ROOT / "tests").rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(NO_WIRE)
    ]
    sent = [
        code
        for section in meanings().values()
        for code, meaning in section.items()
        if not meaning.where
    ]

    assert len(raised()) > 60
    assert [code for code in sent if not any(f'"{code}"' in text for text in tests)] == []
