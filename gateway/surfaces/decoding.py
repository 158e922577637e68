"""Reads a client's JSON into a wire struct, and says by path what is wrong with it.

Every surface reads in the same two steps. The first decodes straight into the struct, which
forbids unknown fields. Only if that fails is the body decoded again, more leniently, and a third
time to set aside what the struct does not know.
"""

import re
from collections.abc import Mapping
from typing import Final, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType, ValidationError

from schemas.errors import InvalidRequest

W = TypeVar("W", bound=msgspec.Struct)

_fields: Final = msgspec.json.Decoder(dict[str, Raw])

_BRACE: Final = ord("{")
_SAID: Final = re.compile(r"(.*?)(?: - at (?:`key` in )?`\$(.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field (.*)")
_INDEX: Final = re.compile(r"\[\d+\]")


class Reader(Generic[W]):
    """Decodes whole bodies into one wire struct.

    wire:    forbids unknown fields.
    allowed: a field's path, indices left out (`stop[]`), to what it must be (`a string`).
    where:   the path of what is read, "" for the whole body.
    """

    def __init__(self, wire: type[W], allowed: Mapping[str, str], where: str = "") -> None:
        lenient = msgspec.defstruct(
            wire.__name__, (), bases=(wire,), frozen=True, kw_only=True, forbid_unknown_fields=False
        )
        self._strict = msgspec.json.Decoder(wire)
        self._lenient = msgspec.json.Decoder(cast(type[W], lenient))
        self._known = frozenset(field.encode_name for field in msgspec.structs.fields(wire))
        self._allowed = allowed
        self._where = where

    def read(self, body: bytes) -> tuple[W, dict[str, Raw]]:
        """The known fields, and the unknown ones that are not null. Raises InvalidRequest."""
        try:
            if not body.isascii():
                body.decode()
            return self._strict.decode(body), {}
        except ValidationError:
            return self._set_aside(body)
        except (DecodeError, RecursionError, UnicodeDecodeError) as exc:
            raise refusal(exc, self._where, self._allowed) from exc

    def _set_aside(self, body: bytes) -> tuple[W, dict[str, Raw]]:
        try:
            wire = self._lenient.decode(body)
            fields = _fields.decode(body)
        except (DecodeError, RecursionError) as exc:
            raise refusal(exc, self._where, self._allowed) from exc
        known = self._known
        unknown = {name: raw for name, raw in fields.items() if name not in known}
        return wire, {name: raw for name, raw in unknown.items() if not is_null(raw)}


def is_null(raw: Raw) -> bool:
    return len(memoryview(raw)) == 4 and bytes(raw) == b"null"


def is_object(raw: Raw) -> bool:
    return memoryview(raw)[0] == _BRACE


def given(raw: Raw | UnsetType) -> Raw | UnsetType:
    """`UNSET` for a null, which counts as absent."""
    return UNSET if raw is UNSET or is_null(raw) else raw


def refusal(
    exc: DecodeError | RecursionError | UnicodeDecodeError, where: str, allowed: Mapping[str, str]
) -> InvalidRequest:
    """What a failed decode means to the client.

    where:   the path of the value that was decoded, "" for the whole body.
    allowed: as for `Reader`.
    """
    if isinstance(exc, RecursionError):
        return InvalidRequest("the body is nested too deeply", param=where or None)
    if isinstance(exc, UnicodeDecodeError):
        return InvalidRequest(f"the body is not UTF-8: {exc.reason} at byte {exc.start}")
    if not isinstance(exc, ValidationError):
        return InvalidRequest(f"the body is not valid JSON: {exc}", param=where or None)
    said, path = _parts(str(exc))
    missing = _MISSING.fullmatch(said)
    if missing is not None:
        param = _join(where, _join(path, missing[1]))
        return InvalidRequest(f"{param} is required", param=param)
    param = _join(where, path)
    if not param:
        return InvalidRequest("the body must be a JSON object")
    must = allowed.get(_INDEX.sub("[]", param))
    if must is None:
        return InvalidRequest(f"{param}: {said[:1].lower()}{said[1:]}", param=param)
    return InvalidRequest(f"{param} must be {must}", param=param)


def _parts(text: str) -> tuple[str, str]:
    match = _SAID.fullmatch(text)
    if match is None:
        return text, ""
    said: str = match[1]
    path: str | None = match[2]
    return said.replace("`", ""), (path or "").removeprefix(".").replace("[...]", "")


def _join(parent: str, child: str) -> str:
    if not parent or not child or child.startswith("["):
        return parent + child
    return f"{parent}.{child}"
