"""Reads parts of a body that its vendor's schema has found right, or that have none."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

Json = Mapping[str, object]

Fault = tuple[str, str]
"""A path in the body, and what is wrong there."""

Faults = Iterator[Fault]


def entries(value: object) -> list[object]:
    """Return a list, [] for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def members(value: object) -> Json:
    """Return an object, {} for anything else."""
    return cast("Json", value) if isinstance(value, dict) else {}


def objects(value: object) -> list[Json]:
    """Return the objects of a list, [] for anything else."""
    return [cast("Json", one) for one in entries(value) if isinstance(one, dict)]


def inner(value: object, *names: str) -> Json:
    """Return the object at a path of names, {} where there is none."""
    found = members(value)
    for name in names:
        found = members(found.get(name))
    return found


def text(value: object) -> str:
    """Return a string, "" for anything else."""
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """Return a number, `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def repeated(names: Sequence[str]) -> Iterator[int]:
    """Yield the places of names that have come before."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name in seen:
            yield place
        seen.add(name)


def outside(body: Json, name: str, least: float, most: float) -> Faults:
    """Yield a fault if a number in the body is out of range."""
    value = number(body.get(name))
    if value is not None and not least <= value <= most:
        yield name, f"is {value}, outside {least:g} … {most:g}"
