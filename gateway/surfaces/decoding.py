"""Decode a client's JSON into a wire struct, and report errors with the field's path.

Every surface decodes in the same two steps. The first decodes straight into the struct, which
forbids unknown fields. Only if that fails, the body is decoded again, leniently, and a third
time to collect the fields that the struct does not know.
"""

import codecs
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Final, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType, ValidationError

from strowger_gateway.gateway.surfaces.number_lists import SHORT, is_long, lists
from strowger_gateway.schemas.errors import InvalidRequest

UNREADABLE: Final = (DecodeError, RecursionError, UnicodeDecodeError)
"""Everything that msgspec's decoders raise for a client's bytes."""

W = TypeVar("W", bound=msgspec.Struct)

_fields: Final = msgspec.json.Decoder(dict[str, Raw])

MAX_FIELDS: Final = 1_000
"""Maximum number of top-level fields of a body that has unknown ones."""

MODEL_NAME: Final = (
    "a string of at most 256 characters: letters, digits and . - _ / : @ +, "
    "neither starting nor ending with one of . - _"
)
_model_name: Final = re.compile(r"[A-Za-z0-9/:@+](?:[A-Za-z0-9._/:@+-]*[A-Za-z0-9/:@+])?")

_SHOWN: Final = 300
_utf8: Final = codecs.getincrementaldecoder("utf-8")
_BRACE: Final = ord("{")
_MESSAGE_AND_PATH: Final = re.compile(r"(.*?)(?: - at (?:`key` in )?`\$(.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field (.*)")
_INDEX: Final = re.compile(r"\[\d+\]")


class BodyReader(Generic[W]):
    """Decode whole bodies into one wire struct.

    wire:    forbids unknown fields.
    allowed: maps a field's path without indices (`stop[]`) to what it must be (`a string`).
    where:   the path of what is decoded, "" for the whole body.
    numbers: maps fields that may be long lists of numbers to their whole type and to that of a
             flat list.
    """

    def __init__(
        self,
        wire: type[W],
        allowed: Mapping[str, str],
        where: str = "",
        numbers: Mapping[str, tuple[object, object]] | None = None,
    ) -> None:
        lenient = msgspec.defstruct(
            wire.__name__, (), bases=(wire,), frozen=True, kw_only=True, forbid_unknown_fields=False
        )
        self._strict = msgspec.json.Decoder(wire)
        self._lenient = msgspec.json.Decoder(cast(type[W], lenient))
        self._known = frozenset(field.encode_name for field in msgspec.structs.fields(wire))
        self._allowed = allowed
        self._where = where
        self._numbers = NumberLists(wire, numbers, where, allowed) if numbers else None

    def read(self, body: bytes) -> tuple[W, dict[str, Raw]]:
        """Return the known fields, and the unknown non-null ones. Raises InvalidRequest."""
        try:
            if not body.isascii():
                check_utf8(body)
            if self._numbers is not None and len(body) > SHORT:
                return self._in_pieces(body, self._numbers)
            return self._strict.decode(body), {}
        except ValidationError:
            return self._set_aside(body)
        except (DecodeError, RecursionError, UnicodeDecodeError) as exc:
            raise invalid_request(exc, self._where, self._allowed) from exc

    def _in_pieces(self, body: bytes, numbers: "NumberLists[W]") -> tuple[W, dict[str, Raw]]:
        try:
            wire, found = numbers.strict.decode(body), {}
        except ValidationError:
            wire, found = self._set_aside(body, numbers.lenient)
        return numbers.filled(wire), found

    def _set_aside(
        self, body: bytes, lenient: "msgspec.json.Decoder[W] | None" = None
    ) -> tuple[W, dict[str, Raw]]:
        try:
            wire = (lenient or self._lenient).decode(body)
            fields = _fields.decode(body)
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, self._where, self._allowed) from exc
        if len(fields) > MAX_FIELDS:
            raise InvalidRequest(
                f"the body has {len(fields)} fields; the maximum is {MAX_FIELDS}",
                param=self._where or None,
            )
        known = self._known
        unknown = {name: raw for name, raw in fields.items() if name not in known}
        return wire, {name: raw for name, raw in unknown.items() if not is_null(raw)}


class NumberLists(Generic[W]):
    """The wire struct with its long lists kept as JSON, which is then decoded in pieces."""

    def __init__(
        self,
        wire: type[W],
        fields: Mapping[str, tuple[object, object]],
        where: str,
        allowed: Mapping[str, str],
    ) -> None:
        """fields, where, allowed: as for `BodyReader`."""
        self._whole = {name: _decoder(whole) for name, (whole, _) in fields.items()}
        self._flat = {name: _decoder(numbers) for name, (_, numbers) in fields.items()}
        self._where = where
        self._allowed = allowed
        self._wire = wire

    @cached_property
    def strict(self) -> "msgspec.json.Decoder[W]":
        """A decoder that forbids unknown fields."""
        return self._unread(forbid_unknown_fields=True)

    @cached_property
    def lenient(self) -> "msgspec.json.Decoder[W]":
        return self._unread(forbid_unknown_fields=False)

    def filled(self, wire: W) -> W:
        """Decode the lists into the same object, and return it. Raises InvalidRequest."""
        for name, whole in self._whole.items():
            raw: Raw | UnsetType = getattr(wire, name)
            value = None
            if raw is not UNSET:
                where = _join(self._where, name)
                try:
                    value = self._long(raw, name, where) if is_long(raw) else whole.decode(raw)
                except (DecodeError, RecursionError) as exc:
                    raise invalid_request(exc, where, self._allowed) from exc
            msgspec.structs.force_setattr(wire, name, value)
        return wire

    def _long(self, raw: Raw, name: str, where: str) -> tuple[object, ...]:
        try:
            return lists(bytes(raw), self._flat[name])
        except DecodeError as exc:  # its index counts within a piece
            must = self._allowed.get(where, "a list of numbers")
            raise InvalidRequest(f"{where} must be {must}", param=where) from exc

    def _unread(self, *, forbid_unknown_fields: bool) -> "msgspec.json.Decoder[W]":
        required = {field.name for field in msgspec.structs.fields(self._wire) if field.required}
        unread = msgspec.defstruct(
            self._wire.__name__,
            [
                (name, Raw) if name in required else (name, Raw | UnsetType, UNSET)
                for name in self._whole
            ],
            bases=(self._wire,),
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=forbid_unknown_fields,
        )
        return msgspec.json.Decoder(cast(type[W], unread))


def _decoder(kind: object) -> "msgspec.json.Decoder[tuple[object, ...]]":
    return msgspec.json.Decoder(cast("type[tuple[object, ...]]", kind))


def check_utf8(body: bytes) -> None:
    """Raise UnicodeDecodeError if invalid. In pieces: each call blocks the interpreter."""
    if len(body) <= SHORT:
        body.decode()
        return
    decoder = _utf8()
    for at in range(0, len(body), SHORT):
        try:
            decoder.decode(body[at : at + SHORT], final=at + SHORT >= len(body))
        except UnicodeDecodeError as exc:
            place = max(at + exc.start, 0)
            raise UnicodeDecodeError(exc.encoding, b"", place, place + 1, exc.reason) from exc


def check_whole(stream: bool | None) -> None:
    """Raise InvalidRequest if a client wants a stream of what is always answered whole."""
    if stream:
        raise InvalidRequest(
            "stream: answers of this route are not streamed; send false, or leave it out",
            param="stream",
        )


def model_name(named: str | None, path: str) -> str:
    """Return the model that a body names, or its path does. Raises InvalidRequest."""
    if path:
        return path
    if named is None:
        raise InvalidRequest("model is required", param="model")
    return _checked_model(named)


@lru_cache(maxsize=1024)
def _checked_model(name: str) -> str:
    if _model_name.fullmatch(name) is None:
        raise InvalidRequest(f"model must be {MODEL_NAME}", param="model")
    return name


def is_null(raw: Raw) -> bool:
    return len(memoryview(raw)) == 4 and bytes(raw) == b"null"


def is_object(raw: Raw) -> bool:
    return memoryview(raw)[0] == _BRACE


def null_to_unset(raw: Raw | UnsetType) -> Raw | UnsetType:
    """Return `UNSET` for a null, which counts as absent."""
    return UNSET if raw is UNSET or is_null(raw) else raw


def invalid_request(
    exc: DecodeError | RecursionError | UnicodeDecodeError, where: str, allowed: Mapping[str, str]
) -> InvalidRequest:
    """Return the client's error for a failed decode.

    where:   the path of the value that was decoded, "" for the whole body.
    allowed: as for `BodyReader`.
    """
    if isinstance(exc, RecursionError):
        return InvalidRequest("the body is nested too deeply", param=where or None)
    if isinstance(exc, UnicodeDecodeError):
        return InvalidRequest(f"the body is not UTF-8: {exc.reason} at byte {exc.start}")
    if not isinstance(exc, ValidationError):
        return InvalidRequest(f"the body is not valid JSON: {exc}", param=where or None)
    problem, path = _parts(str(exc))
    missing = _MISSING.fullmatch(problem)
    if missing is not None:
        param = _join(where, _join(path, missing[1]))
        return InvalidRequest(f"{param} is required", param=param)
    param = _join(where, path)
    if not param:
        return InvalidRequest("the body must be a JSON object")
    must = allowed.get(_INDEX.sub("[]", param))
    if must is None:
        return InvalidRequest(f"{param}: {problem[:1].lower()}{problem[1:]}", param=param)
    return InvalidRequest(f"{param} must be {must}", param=param)


def _parts(text: str) -> tuple[str, str]:
    if len(text) > 2 * _SHOWN:  # it may contain the client's data
        text = f"{text[:_SHOWN]}…{text[-_SHOWN:]}"
    match = _MESSAGE_AND_PATH.fullmatch(text)
    if match is None:
        return text, ""
    problem: str = match[1]
    path: str | None = match[2]
    return problem.replace("`", ""), (path or "").removeprefix(".").replace("[...]", "")


def _join(parent: str, child: str) -> str:
    if not parent or not child or child.startswith("["):
        return parent + child
    return f"{parent}.{child}"
