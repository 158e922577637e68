"""What the gateway's answer may have else than the vendor's, as the same SDK reads both.

A path has dots; `*` stands for any index or name. Null and absence mean the same in all dialects.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, cast

from msgspec import Struct

Json = Mapping[str, object]


class Difference(Struct, frozen=True):
    """path: of what differs.

    kind: `other` value, `added` by us, `empty` at the vendor and left out, `json` text of a value.
    """

    path: str
    kind: Literal["other", "added", "empty", "json"]
    reason: str


class Found(Struct, frozen=True):
    """One difference: its path, the vendor's value and ours."""

    path: str
    direct: object
    ours: object

    def __str__(self) -> str:
        return f"{self.path}: {self.direct!r:.200} became {self.ours!r:.200}"

    def is_like(self, known: Difference) -> bool:
        if not fnmatchcase(self.path, known.path):
            return False
        match known.kind:
            case "added":
                return is_empty(self.direct)
            case "empty":
                return is_empty(self.direct) and self.ours is None
            case "json":
                return isinstance(self.ours, str) and _json(self.ours) == self.direct
            case "other":
                return True


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def is_empty(value: object) -> bool:
    """Return whether a value says nothing: null, "", [], or an object of such, or of 0."""
    if isinstance(value, dict):
        return all(one == 0 or is_empty(one) for one in cast("Json", value).values())
    return value in (None, "", [])


def differences(direct: object, ours: object, path: str = "") -> Iterator[Found]:
    """Yield where the two differ, at the smallest member."""
    one, other = members_of(direct), members_of(ours)
    if one is not None and other is not None:
        for name in sorted({*one, *other}):
            yield from differences(one.get(name), other.get(name), f"{path}.{name}".lstrip("."))
    elif not _is_same(direct, ours):
        yield Found(path, direct, ours)


def members_of(value: object) -> Json | None:
    """Return an object's members, or a list's by their places; `None` for another value."""
    if isinstance(value, dict):
        return cast("Json", value)
    if isinstance(value, list):
        return {"length": len(cast("list[object]", value))} | {
            str(place): one for place, one in enumerate(cast("list[object]", value))
        }
    return None


def _is_same(direct: object, ours: object) -> bool:
    return (type(direct) is type(ours) and direct == ours) or (_is_null(direct) and _is_null(ours))


def _is_null(value: object) -> bool:
    """Return whether a value is null, or an object of nothing but nulls."""
    members = members_of(value)
    if members is None:
        return value is None
    return (
        isinstance(value, dict)
        and bool(members)
        and not any(one is not None for one in members.values())
    )


def unexplained(direct: object, ours: object, known: Sequence[Difference]) -> list[str]:
    """Return the differences that no entry explains."""
    return [
        str(one)
        for one in differences(direct, ours)
        if not any(one.is_like(entry) for entry in known)
    ]


def unused(found: Sequence[Found], known: Sequence[Difference]) -> list[str]:
    """Return the entries that explain nothing."""
    return [entry.path for entry in known if not any(one.is_like(entry) for one in found)]
