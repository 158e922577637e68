"""How many cases a property has: few in `make test`, the same each time, and many at night."""

import os
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

import pytest

_T = TypeVar("_T")

EXAMPLES = int(os.environ.get("STROWGER_EXAMPLES", "5"))
"""Of a property that names no number; `make nightly-properties EXAMPLES=500` has more."""

_USUAL = 20
_MOST = 5.0
"""Times the number that a property names: those that name one have many cases already."""


def examples(number: int) -> int:
    """Return the size of a property in this run, at least 1.

    number: what it needs to find its faults, where a usual property needs 20.
    """
    return max(1, int(number * min(EXAMPLES / _USUAL, _MOST)))


def by_day(cases: Iterable[_T], day: Collection[_T]) -> list[object]:
    """Return all cases for `parametrize`; those that are not in `day` run only at night."""
    return [pytest.param(one, marks=() if one in day else pytest.mark.nightly) for one in cases]


class FirstOnly:
    """Chooses what runs by day of a product in which much repeats: a thing at its first owner."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def marks(self, thing: str, owner: str) -> Sequence[pytest.MarkDecorator]:
        """Return the marks of a case: nightly if another owner had the thing before.

        Things without a `/` are about the owner itself, not about a recording, and run always.
        """
        if "/" not in thing or self._owners.setdefault(thing, owner) == owner:
            return ()
        return (pytest.mark.nightly,)
