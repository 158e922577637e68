"""Wire structs that take no field which they do not declare, at any depth.

What is inside of a body is read with these first: only a request for which that fails is read
again with the structs as they are, and then known to hold more than our schema has.
"""

from types import UnionType
from typing import TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Struct

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


def strict(kind: type[S]) -> type[S]:
    """The struct, and those in its fields, with unknown fields forbidden."""
    own: list[tuple[str, object, object]] = []
    for field in msgspec.structs.fields(kind):
        inner = strict_type(field.type)
        if inner is not field.type:
            own.append((field.name, inner, msgspec.field(default=field.default)))
    made = msgspec.defstruct(
        kind.__name__,
        cast("list[tuple[str, type, object]]", own),
        bases=(kind,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast("type[S]", made)


def strict_type(kind: T) -> T:
    """The same for a field's type; itself where there is no struct in it."""
    whole: object = kind
    if isinstance(whole, type) and issubclass(whole, Struct):
        return cast("T", strict(whole))
    if get_origin(kind) in (Union, UnionType):
        members: tuple[object, ...] = get_args(kind)
        inner = tuple(strict_type(one) for one in members)
        if inner != members:
            return cast("T", Union[inner])  # noqa: UP007  the members are known only here
    return kind
