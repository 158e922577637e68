"""The types of config.yaml's fields, analysed and described for messages."""

import types
from collections.abc import Mapping
from typing import Annotated, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct, UnsetType

from strowger_gateway.schemas.secret import Secret


class Kind(Struct, frozen=True, kw_only=True):
    """One field's type.

    whole:   the type as written, for msgspec.
    members: the types that it unites, without `None` and `UnsetType`.
    extra:   the markers of its Annotated members (gateway/config/schema/units.py).
    """

    whole: object
    members: tuple[object, ...]
    nullable: bool
    extra: frozenset[str]

    @property
    def struct(self) -> type[Struct] | None:
        """The Struct that the field holds, in place of a word if the type unites the two."""
        others = [one for one in self.members if get_origin(one) is not Literal]
        only = _bare(others[0]) if len(others) == 1 else None
        return only if isinstance(only, type) and issubclass(only, Struct) else None

    @property
    def item(self) -> object:
        """The type of a list's items; `None` if the field is not a list."""
        return get_args(self._only)[0] if get_origin(self._only) is tuple else None

    @property
    def entry(self) -> tuple[object, object] | None:
        """The types of a mapping's keys and values; `None` if the field is not a mapping."""
        if get_origin(self._only) in (Mapping, dict):
            key, value = get_args(self._only)
            return key, value
        return None

    @property
    def container(self) -> bool:
        """True if an empty value in the file means the default."""
        return (self.struct or self.item or self.entry) is not None

    @property
    def lengths(self) -> tuple[int, int | None]:
        """The fewest and the most characters of a text, or entries of a list."""
        metas = [meta for member in self.members for meta in _metas(member)]
        least = max((meta.min_length or 0 for meta in metas), default=0)
        most = [meta.max_length for meta in metas if meta.max_length is not None]
        return least, min(most, default=None)

    @property
    def secret(self) -> bool:
        return Secret in self.members

    @property
    def words(self) -> tuple[str, ...]:
        """The texts that a Literal allows."""
        return tuple(
            word
            for member in self.members
            if get_origin(member) is Literal
            for word in get_args(member)
            if isinstance(word, str)
        )

    @property
    def bare(self) -> tuple[object, ...]:
        """The members without Annotated."""
        return tuple(_bare(member) for member in self.members)

    @property
    def _only(self) -> object:
        return _bare(self.members[0]) if len(self.members) == 1 else None

    def __str__(self) -> str:
        """`an integer from 1 to 5`, `"auto" or a size such as 512MiB`."""
        sorts = [_describe(member) for member in self.members if get_origin(member) is not Literal]
        words = [f'"{word}"' for word in self.words]
        if not sorts and len(words) > 1:
            return f"one of {', '.join(words)}"
        return " or ".join([*sorts, *words, *(["null"] if self.nullable else [])])


def kind_of(annotation: object) -> Kind:
    members: list[object] = []
    nullable = False
    extra: set[str] = set()
    for member in _united(annotation):
        if member is types.NoneType:
            nullable = True
        elif member is not UnsetType:
            members.append(member)
            for meta in _metas(member):
                extra.update(meta.extra or ())
    return Kind(whole=annotation, members=tuple(members), nullable=nullable, extra=frozenset(extra))


def _united(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _bare(member: object) -> object:
    return get_args(member)[0] if get_origin(member) is Annotated else member


def _metas(member: object) -> tuple[Meta, ...]:
    if get_origin(member) is not Annotated:
        return ()
    return tuple(meta for meta in get_args(member)[1:] if isinstance(meta, Meta))


def _describe(member: object) -> str:
    bare, metas = _bare(member), _metas(member)
    for meta in metas:
        if meta.description:
            return meta.description
        if meta.extra and "size" in meta.extra:
            return "a size such as 512MiB"
    bounds = "".join(_bounds(meta) for meta in metas)
    match bare:
        case _ if bare is bool:
            return "true or false"
        case _ if bare is int:
            return f"an integer{bounds}"
        case _ if bare is float:
            return f"a number{bounds}"
        case _ if get_origin(bare) is tuple:
            return "a list"
        case type() if not issubclass(bare, str | Secret):
            return "a mapping"
        case _ if get_origin(bare) in (Mapping, dict):
            return "a mapping"
        case _:
            return "text"


def _bounds(meta: Meta) -> str:
    """` from 1 to 5`, ` above 0`, ` above 0, at most 1`, ` above 0, below 1`."""
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge} to {meta.le}"
    parts = [
        f"{words} {bound}"
        for words, bound in (
            ("above", meta.gt),
            ("of at least", meta.ge),
            ("at most", meta.le),
            ("below", meta.lt),
        )
        if bound is not None
    ]
    return f" {', '.join(parts)}" if parts else ""
