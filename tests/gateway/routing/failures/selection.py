"""Which cases of a table run by day, and which of them this run has."""

from collections.abc import Iterable
from typing import cast

import pytest

from tests.gateway.routing.failures.fault_scenarios import Sees

Case = tuple[int, str]
"""A scenario's place in its table, and the name of the client's task."""


def by_day(cases: Iterable[tuple[Case, Sees]], always: frozenset[str]) -> frozenset[Case]:
    """Return the cases that need not wait for the night.

    always: tasks that meet every fault: one of each dialect of the backend, streamed and not. Each
    other task differs only in how the surface renders the result, so it meets every result once.
    """
    found, met = set[Case](), set[tuple[str, Sees]]()
    for (place, name), sees in cases:
        if name in always or (name, sees) not in met:
            found.add((place, name))
        met.add((name, sees))
    return frozenset(found)


def chosen(session: pytest.Session, file: str, test: str) -> frozenset[Case]:
    """Return the cases of a test that this run has. file: the name of its module."""
    head = f"{file.replace('.', '/')}.py::"
    return frozenset(
        cast("Case", (item.callspec.params["place"], item.callspec.params["task"]))
        for item in session.items
        if item.nodeid.startswith(head)
        and isinstance(item, pytest.Function)
        and item.originalname == test
    )
