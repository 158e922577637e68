"""Rules for all parts of the program, which no type checker sees."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.parts.columns import Column
from strowger_gateway.gateway.parts.part import Part

NAME = re.compile(r"[a-z][a-z0-9_]*")
VIEW = re.compile(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*")


def named_twice(names: Sequence[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def columns_in(part: Part) -> Iterator[Column[Any]]:
    """The columns that the modules of a part's folder define, without those of parts within it."""
    package = import_module(type(part).__module__.rpartition(".")[0])
    others = {f"{type(one).__module__.rpartition('.')[0]}." for one in PARTS if one is not part}
    within = tuple(other for other in others if other.startswith(f"{package.__name__}."))
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        if module.name.startswith(within):
            continue
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Column):
                yield value


def test_names_of_parts_and_of_their_columns_and_views_are_used_once() -> None:
    names = [part.name for part in PARTS]
    columns = [column.name for part in PARTS for column in part.columns]
    views = [view.name for part in PARTS for view in part.views()]

    assert [named_twice(names), named_twice(columns), named_twice(views)] == [[], [], []]
    assert [name for name in (*names, *columns) if not NAME.fullmatch(name)] == []
    assert [name for name in views if not VIEW.fullmatch(name)] == []


def test_what_changes_something_is_a_post_that_refuses_unknown_fields() -> None:
    views = [view for part in PARTS for view in part.views()]
    forms = [route for view in views for route in view.forms.values()]
    routes = [route for part in PARTS for route in part.routes()]
    posts = [route for route in routes if route.method == "POST"]

    assert [route.path for route in forms if route.method != "POST"] == []
    assert [
        route.path
        for route in (*posts, *forms)
        if not route.takes.__struct_config__.forbid_unknown_fields
    ] == []


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_a_part_lists_every_column_that_it_sets(part: Part) -> None:
    """What is not listed is recorded, but in no documentation."""
    assert [column for column in columns_in(part) if column not in part.columns] == []
