"""Makes strict validators of the request types that vendors' clients are typed with.

The clients' own validation is lenient: what a type does not have passes through, a list is checked
when somebody iterates over it, and a number may be a string. Here all of that is a fault.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, cast

from msgspec import Struct
from pydantic import TypeAdapter
from pydantic_core import CoreSchema, SchemaValidator, ValidationError

from tests.oracle.reading import members
from tests.oracle.sent import decoded

_CLOSED: Final = frozenset({"typed-dict", "model-fields", "dataclass-args"})
_TAGS: Final = frozenset({"type", "role"})
_NO_MEMBER: Final = frozenset({"missing", "extra_forbidden"})
_TOO_DEEP: Final = "recursion limit exceeded"


class StrictType:
    """One type.

    closed: members that it does not have are faults. optional: members that it requires and the
    vendor does not, by the name of the class that has them.
    """

    def __init__(
        self,
        of: object,
        *,
        closed: bool = True,
        optional: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        schema = TypeAdapter[object](cast("type[object]", of)).core_schema
        strict = _Strict(closed, optional or {}).copy(schema)
        # A model's class has a lenient validator of its own, which would be taken.
        self._validator = SchemaValidator(cast("CoreSchema", strict), _use_prebuilt=False)

    def faults(self, raw: bytes) -> Iterator[tuple[str, str]]:
        """Yield the path and the fault of everything in a JSON body that the type has not.

        A body that is nested more than 200 deep is not read.
        """
        try:
            self._validator.validate_json(raw, strict=True)
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_input=False, include_context=False)
            found = [_Fault(one["loc"], one["type"], one["msg"], ()) for one in errors]
            if not (found[0].kind == "json_invalid" and _TOO_DEEP in found[0].text):
                for fault in _of_best_branches(found, decoded(raw), 0):
                    yield ".".join(str(one) for one in fault.path), fault.text


class _Fault(Struct, frozen=True):
    """at: with the branches of unions. path: the part of it that was found in the body."""

    at: tuple[str | int, ...]
    kind: str
    text: str
    path: tuple[str | int, ...]


class _Strict(Struct, frozen=True):
    closed: bool
    optional: Mapping[str, frozenset[str]]

    def copy(self, schema: object) -> object:
        """Copy a core schema so that iterables are read, and unknown members are forbidden."""
        if isinstance(schema, list):
            return [self.copy(one) for one in cast("list[object]", schema)]
        if not isinstance(schema, dict):
            return schema
        given = cast("dict[str, object]", schema)
        if given.get("type") == "enum":  # one that may be made to take any value
            values = cast("list[Enum]", given["members"])
            return {"type": "literal", "expected": [one.value for one in values]}
        copy = {
            name: value if name == "metadata" else self.copy(value)
            for name, value in given.items()
            if name != "serialization"
        }
        if given.get("type") == "int":  # 1.0 is one, in JSON
            return {"type": "union", "choices": [copy, {"type": "float", "multiple_of": 1.0}]}
        kind = copy.get("type")  # of a schema; among a type's fields there may be one of that name
        if isinstance(kind, str) and kind in _CLOSED and "extras_schema" not in copy:
            copy["extra_behavior"] = "forbid" if self.closed else "ignore"
        name = getattr(copy.get("cls"), "__name__", "")
        if kind == "typed-dict" and name in self.optional:
            fields = cast("dict[str, dict[str, object]]", copy["fields"])
            for member in self.optional[name]:
                fields[member]["required"] = False
        if kind == "generator":
            copy["type"] = "list"
        return copy


def _of_best_branches(found: Sequence[_Fault], value: object, depth: int) -> Iterator[_Fault]:
    """Yield the faults, of a union's branches only those of the one that was probably meant.

    The place of a fault names the branches as if they were members, which `value` does not have.
    """
    inside: dict[str | int, list[_Fault]] = defaultdict(list)
    branches: dict[str | int, list[_Fault]] = defaultdict(list)
    for fault in found:
        if len(fault.at) == depth:
            yield fault
        elif _is_member(fault, value, depth):
            step = fault.at[depth]
            inside[step].append(_Fault(fault.at, fault.kind, fault.text, (*fault.path, step)))
        else:
            branches[fault.at[depth]].append(fault)
    for member, faults in inside.items():
        yield from _of_best_branches(faults, _inside(value, member), depth + 1)
    if branches:
        best = min(branches.values(), key=lambda faults: _distance(faults, value, depth + 1))
        if _is_other(best, value, depth + 1):
            path = best[0].path
            yield _Fault(path, "union", f"is none of the {len(branches)} that are allowed", path)
        else:
            yield from _of_best_branches(best, value, depth + 1)


def _is_member(fault: _Fault, value: object, depth: int) -> bool:
    step = fault.at[depth]
    if isinstance(step, int):
        return isinstance(value, list)
    if not isinstance(value, dict):
        return False
    return step in value or (fault.kind in _NO_MEMBER and depth + 1 == len(fault.at))


def _inside(value: object, step: str | int) -> object:
    if isinstance(step, int):
        inside = cast("list[object]", value)
        return inside[step] if step < len(inside) else None
    return cast("Mapping[str, object]", value).get(step)


def _distance(faults: Sequence[_Fault], value: object, depth: int) -> tuple[bool, int]:
    return _is_other(faults, value, depth), len(faults)


def _is_other(faults: Sequence[_Fault], value: object, depth: int) -> bool:
    """Return whether the value is an object of another tag, or no object at all."""
    if any(len(one.at) == depth for one in faults):
        return True
    tags = _TAGS & members(value).keys()
    return any(len(one.at) == depth + 1 and one.at[depth] in tags for one in faults)
