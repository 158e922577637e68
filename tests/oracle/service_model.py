"""Checks a JSON body against a service model of AWS, as its REST-JSON protocol writes it.

botocore ships the models; its own validator checks types, presence and the least length only, so
this one reads the rest of them: the greatest length, ranges, patterns, values, and unions, of which
exactly one member is sent. https://smithy.io/2.0/spec/constraint-traits.html
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final, cast

from botocore.loaders import Loader

from tests.oracle.sent import decoded

Json = Mapping[str, object]

_NUMBERS: Final = frozenset({"integer", "long", "float", "double"})
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "blob": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "list": (list,),
    "map": (dict,),
    "structure": (dict,),
    "timestamp": (int, float, str),
}


@cache
def _shapes(service: str) -> Mapping[str, Json]:
    load = cast("Callable[[str, str], Json]", Loader().load_service_model)
    model = load(service, "service-2")
    return cast("Mapping[str, Json]", model["shapes"])


class ShapeSchema:
    """A body as one shape of a service allows it; what is in the path or a header is not read."""

    def __init__(self, service: str, shape: str) -> None:
        self._shapes = _shapes(service)
        self._shape = shape
        self._patterns: dict[str, re.Pattern[str]] = {}

    def faults(self, raw: bytes) -> Iterator[tuple[str, str]]:
        """Yield the path and the fault of everything in a JSON body that the shape has not."""
        for at, fault in self._check(self._shape, decoded(raw), ""):
            yield at.removeprefix("."), fault

    def _check(self, name: str, value: object, at: str) -> Iterator[tuple[str, str]]:
        shape = self._shapes[name]
        kind = str(shape["type"])
        if shape.get("document"):
            return
        wanted = _TYPES[kind]
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            yield at, f"is {type(value).__name__}, not {kind}"
        elif kind == "structure":
            yield from self._structure(shape, cast("Json", value), at)
        elif kind == "list":
            yield from self._length(shape, len(cast("list[object]", value)), at)
            member = str(cast("Json", shape["member"])["shape"])
            for place, one in enumerate(cast("list[object]", value)):
                yield from self._check(member, one, f"{at}.{place}")
        elif kind == "map":
            yield from self._map(shape, cast("Json", value), at)
        elif kind == "blob":
            yield from self._blob(shape, cast("str", value), at)
        elif kind in _NUMBERS:
            yield from self._length(shape, cast("float", value), at)
        elif kind == "string":
            yield from self._string(shape, cast("str", value), at)

    def _structure(self, shape: Json, value: Json, at: str) -> Iterator[tuple[str, str]]:
        members = cast("Mapping[str, Json]", shape["members"])
        body = {
            str(member.get("locationName", name)): (name, str(member["shape"]))
            for name, member in members.items()
            if member.get("location") is None
        }
        required = set(cast("list[str]", shape.get("required", [])))
        for name, (member, _) in body.items():
            if member in required and value.get(name) is None:
                yield f"{at}.{name}", "is required"
        for name in value.keys() - body.keys():
            yield f"{at}.{name}", "is not a member"
        given = [name for name in value if name in body and value[name] is not None]
        if shape.get("union") and len(given) != 1:
            yield at, f"has {len(given)} members of a union, not one: {sorted(given)}"
        for name in given:
            yield from self._check(body[name][1], value[name], f"{at}.{name}")

    def _map(self, shape: Json, value: Json, at: str) -> Iterator[tuple[str, str]]:
        yield from self._length(shape, len(value), at)
        key, member = (str(cast("Json", shape[part])["shape"]) for part in ("key", "value"))
        for name, one in value.items():
            yield from self._check(key, name, f"{at} (key)")
            yield from self._check(member, one, f"{at}.{name}")

    def _blob(self, shape: Json, value: str, at: str) -> Iterator[tuple[str, str]]:
        try:
            content = base64.b64decode(value, validate=True)
        except binascii.Error:
            yield at, "is not base64"
        else:
            yield from self._length(shape, len(content), at)

    def _string(self, shape: Json, value: str, at: str) -> Iterator[tuple[str, str]]:
        yield from self._length(shape, len(value), at)
        allowed = shape.get("enum")
        if allowed is not None and value not in cast("list[str]", allowed):
            yield at, f"is {value!r}, none of {allowed}"
        pattern = shape.get("pattern")
        if pattern is not None and not self._pattern(str(pattern)).fullmatch(value):
            yield at, f"is {value!r}, which does not match {pattern}"

    def _length(self, shape: Json, size: float, at: str) -> Iterator[tuple[str, str]]:
        least, most = (cast("float | None", shape.get(bound)) for bound in ("min", "max"))
        if least is not None and size < least:
            yield at, f"is or has {size}, less than {least}"
        if most is not None and size > most:
            yield at, f"is or has {size}, more than {most}"

    def _pattern(self, text: str) -> re.Pattern[str]:
        if text not in self._patterns:
            self._patterns[text] = re.compile(text)
        return self._patterns[text]
