"""Wire structs that reject undeclared fields, at any depth.

The contents of a body are decoded with these first. Only if that fails, the request is decoded
again with the structs as they are, and is then known to contain more than our schema has.
"""

from types import UnionType
from typing import TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Struct

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


def strict(kind: type[S]) -> type[S]:
    """Return the struct, and the structs in its fields, with unknown fields forbidden."""
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
    """Return the same for a field's type; the type itself if it contains no struct."""
    whole: object = kind
    if isinstance(whole, type) and issubclass(whole, Struct):
        return cast("T", strict(whole))
    if get_origin(kind) in (Union, UnionType):
        members: tuple[object, ...] = get_args(kind)
        inner = tuple(strict_type(one) for one in members)
        if inner != members:
            return cast("T", Union[inner])  # noqa: UP007  the members are known only here
    return kind
