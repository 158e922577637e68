"""Which fields of a Struct can hold what is examined: it has many, and few of them are set."""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, UnsetType

NUMBERS: Final = frozenset([bool, int, float, type(None), UnsetType])
"""Types of values without text."""

SCALARS: Final = NUMBERS | {str}
"""Types of values without JSON."""

Values = tuple[tuple[str, ...], Callable[[Struct], tuple[object, ...]]]


@cache
def holding(kind: type[Struct], plain: frozenset[type]) -> Values:
    """Return the fields that may have a value of another type than these, and what reads them.

    Of fewer than two fields, a text or `None` follows what is read.
    """
    hints = get_type_hints(kind, include_extras=True)
    names = tuple([name for name in kind.__struct_fields__ if not _is_plain(hints[name], plain)])
    return names, _reader(names)


def _reader(names: tuple[str, ...]) -> Callable[[Struct], tuple[object, ...]]:
    """A further value is a text without content: one name alone would not be read as a tuple."""
    return attrgetter(*names, *["__doc__"] * (2 - len(names)))


def _is_plain(hint: Any, plain: frozenset[type]) -> bool:
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_plain(inside[0], plain)
    if origin is Literal:
        return all(type(one) in plain for one in inside)
    if origin in (Union, UnionType, tuple, dict):
        return all(one is Ellipsis or _is_plain(one, plain) for one in inside)
    return hint in plain
