"""Read the JSON of protocol buffers, which clients write in more than one way.

A field may have its name in lowerCamelCase or as in the .proto file, a list of one entry may be
that entry, and 64-bit integers are strings. Google's own servers accept all of it.
https://protobuf.dev/programming-guides/json/
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, Generic, TypeVar, cast

import msgspec
from msgspec import DecodeError, Raw, Struct, ValidationError

from strowger_gateway.gateway.surfaces.decoding import (
    MAX_FIELDS,
    UNREADABLE,
    check_utf8,
    invalid_request,
    is_null,
)
from strowger_gateway.gateway.surfaces.marked_objects import Marks
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest

W = TypeVar("W", bound=Struct)

_LETTER: Final = re.compile("_+([a-zA-Z0-9])")
_CAPITAL: Final = re.compile("[A-Z]")
_NULL: Final = b"null"
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


class ProtoReader(Generic[W]):
    """Decode one message.

    wire:    its struct, with camelCase names; forbids unknown fields.
    allowed: see `strowger_gateway.gateway.surfaces.decoding.BodyReader`.
    lists:   the names of repeated fields that the struct keeps as JSON.
    lax:     numbers may be strings. Not for structs with texts: the text "null" is none there.
    """

    def __init__(
        self,
        wire: type[W],
        allowed: Mapping[str, str],
        *,
        lists: Collection[str] = (),
        lax: bool = False,
    ) -> None:
        lenient = msgspec.defstruct(
            wire.__name__,
            (),
            bases=(wire,),
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=False,
            rename="camel",
        )
        self._strict = msgspec.json.Decoder(wire)
        self._lenient = msgspec.json.Decoder(cast("type[W]", lenient), strict=not lax)
        self._known = frozenset(field.encode_name for field in msgspec.structs.fields(wire))
        self._lists = frozenset(lists)
        self._allowed = allowed

    def body(self, body: bytes) -> tuple[W, Marks]:
        """Return the known fields of a whole body, and the others. Raises InvalidRequest."""
        try:
            if not body.isascii():
                check_utf8(body)
        except UnicodeDecodeError as exc:
            raise invalid_request(exc, "", self._allowed) from exc
        return self.read(body, "")

    def read(self, raw: Raw | bytes, where: str) -> tuple[W, Marks]:
        """Return the known fields, and the others by their names in camelCase, without nulls.

        where: the path of the message. Raises InvalidRequest.
        """
        try:
            found = self._strict.decode(raw)
            if _NULL not in bytes(raw):
                return found, {}
        except ValidationError:
            pass
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, where, self._allowed) from exc
        known: Marks = {}
        others: Marks = {}
        for name, value in object_fields(raw, where).items():
            if name not in self._known:
                others[name] = value
            elif name in self._lists:
                known[name] = as_list(value)
            else:
                known[name] = value
        try:
            return self._lenient.decode(encode(known)), others
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, where, self._allowed) from exc


def object_fields(raw: Raw | bytes, where: str) -> Marks:
    """Return an object's fields by their names in camelCase, without nulls.

    where: its path. Raises InvalidRequest for anything but an object.
    """
    try:
        fields = _fields.decode(raw)
    except ValidationError as exc:
        told = f"{where} must be an object" if where else "the body must be a JSON object"
        raise InvalidRequest(told, param=where or None) from exc
    except UNREADABLE as exc:
        raise invalid_request(exc, where, {}) from exc
    if len(fields) > MAX_FIELDS:
        told = f"{where or 'the body'} has {len(fields)} fields; the maximum is {MAX_FIELDS}"
        raise InvalidRequest(told, param=where or None)
    return {camel(name): value for name, value in fields.items() if not is_null(value)}


def as_list(raw: Raw) -> Raw:
    """Return a list as it is, and anything else as a list of it."""
    return raw if bytes(memoryview(raw)[:1]) == b"[" else Raw(b"[%b]" % bytes(raw))


def camel(name: str) -> str:
    """Return a field's name in lowerCamelCase."""
    if "_" not in name:
        return name
    return _LETTER.sub(lambda found: found[1].upper(), name.strip("_"))


def snake(name: str) -> str:
    """Return a field's name as in the .proto file."""
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", name)
