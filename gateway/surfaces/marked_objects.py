"""Objects of other dialects than OpenAI's: their known fields, and their marks.

Marks are the fields that our schema does not have; see `schemas/messages.py`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar, cast

import msgspec
from msgspec import DecodeError, Raw, Struct, UnsetType, ValidationError

from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.messages import Part, TextPart

K = TypeVar("K")

Marks = dict[str, Raw]

_fields: Final = msgspec.json.Decoder(dict[str, Raw])


class _Kind(Struct, frozen=True, kw_only=True):
    type: str | None = None


_kind: Final = msgspec.json.Decoder(_Kind)


class TypedReader(Generic[K]):
    """Decode objects whose `type` selects a struct.

    union:   the structs' union; they forbid unknown fields.
    kinds:   the structs by type.
    allowed: see `strowger_gateway.gateway.surfaces.decoding.BodyReader`.
    default: the type of an object that has none.
    """

    def __init__(
        self,
        union: object,
        kinds: Mapping[str, type[Struct]],
        allowed: Mapping[str, str],
        default: str = "",
    ) -> None:
        self._strict = msgspec.json.Decoder(cast("type[K]", union))
        self._untyped = msgspec.json.Decoder(cast("type[K]", kinds.get(default, union)))
        self._lenient = {name: _lenient(kind) for name, kind in kinds.items()}
        self._allowed = allowed
        self._default = default

    def read(self, raw: Raw, where: str) -> tuple[K | str, Marks]:
        """Return the object and its unknown fields; its type if that is none of `kinds`.

        where: its path. Raises InvalidRequest for a known type with invalid fields.
        """
        try:
            return self._strict.decode(raw), {}
        except ValidationError as exc:
            invalid = exc
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, where, self._allowed) from exc
        try:
            kind = _kind.decode(raw).type or self._default
            if kind == self._default:
                with suppress(ValidationError):
                    return self._untyped.decode(raw), {}
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, where, self._allowed) from exc
        reader = self._lenient.get(kind)
        if reader is None:
            if kind:
                return kind, {}
            raise invalid_request(invalid, where, self._allowed) from invalid
        try:
            found = reader.decode(raw)
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, where, self._allowed) from exc
        return cast("K", found), unknown_fields(raw, type(found))


def unknown_fields(raw: Raw, kind: type[Struct]) -> Marks:
    """Return the fields of an object that the struct does not have, without nulls."""
    known = kind.__struct_encode_fields__
    return {
        name: one
        for name, one in _fields.decode(raw).items()
        if name not in known and name != "type" and not is_null(one)
    }


def with_marks(more: Marks, **known: Raw | UnsetType) -> Raw | UnsetType:
    """Return the fields as an object; `UNSET` if there are none."""
    found: Marks = {
        name: raw for name, raw in known.items() if isinstance(raw, Raw) and not is_null(raw)
    }
    found |= more
    return Raw(encode(found)) if found else msgspec.UNSET


def content_of(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Return plain text as a string, as most clients of OpenAI's dialect send it."""
    if len(parts) == 1:
        (part,) = parts
        if isinstance(part, TextPart) and part.marks is msgspec.UNSET:
            return part.text
    return tuple(parts)


def _lenient(kind: type[Struct]) -> "msgspec.json.Decoder[Struct]":
    made = msgspec.defstruct(
        kind.__name__, (), bases=(kind,), frozen=True, kw_only=True, forbid_unknown_fields=False
    )
    return msgspec.json.Decoder(made)
