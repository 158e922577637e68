"""Read which prompt a request names: in its body, or in a header.

- `prompt_id`, `prompt_version` and `prompt_variables` in any body, as clients of LiteLLM send them
  (https://docs.litellm.ai/docs/proxy/prompt_management).
- `prompt: {id, version, variables}` in bodies of the Responses API, as OpenAI's clients do
  (https://platform.openai.com/docs/api-reference/responses/create).
- The header `x-gateway-prompt: NAME` or `NAME@VERSION`, for clients that cannot add fields.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Request

HEADER: Final = "x-gateway-prompt"

_ID, _VERSION, _VARIABLES, _OBJECT = "prompt_id", "prompt_version", "prompt_variables", "prompt"
REFERENCE_FIELDS: Final = frozenset({_ID, _VERSION, _VARIABLES, _OBJECT})
"""Fields of bodies that name a prompt, and that no backend gets."""

_MEMBERS: Final = frozenset({"id", "version", "variables"})
_LONGEST_NAME: Final = 128

_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_name: Final[msgspec.json.Decoder[str | int]] = msgspec.json.Decoder(str | int)


class _InputText(Struct, frozen=True, kw_only=True, tag="input_text"):
    text: str


_value: Final[msgspec.json.Decoder[str | _InputText]] = msgspec.json.Decoder(str | _InputText)
_LITERAL_STARTS: Final = b"-0123456789tf"
"""First characters of numbers and booleans in JSON."""

NO_VALUES: Final[Mapping[str, str]] = {}


class Reference(Struct, frozen=True, kw_only=True):
    """A prompt that a request names.

    version: "" for the default one. values: of its fields, by name.
    literals: names of values that came as numbers or booleans, and are texts in `values`.
    id_field, version_field, values_field: the names of these in the client's request.
    """

    name: str
    version: str = ""
    values: Mapping[str, str] = NO_VALUES
    literals: tuple[str, ...] = ()
    id_field: str = _ID
    version_field: str = _VERSION
    values_field: str = _VARIABLES


def reference_of(request: Request, header: str | None) -> Reference | None:
    """Return what the request names; `None` if it names no prompt.

    header: the value of `x-gateway-prompt`. Raises InvalidRequest that names the field.
    """
    extra = request.extra
    if not extra.keys() & REFERENCE_FIELDS:
        return None if header is None else _of_header(header)
    if _OBJECT in extra:
        return _of_object(extra)
    if _ID not in extra:
        if header is not None:
            found = _of_header(header)
            version = _name_in(extra, _VERSION) or found.version
            values, literals = _values(extra, _VARIABLES)
            return replace(found, version=version, values=values, literals=literals)
        if _VERSION not in extra and not _values(extra, _VARIABLES)[0]:
            return None  # no variables are for no prompt
        field = next(one for one in (_VARIABLES, _VERSION) if one in extra)
        raise InvalidRequest(f"{field} needs {_ID}, the name of a prompt", param=_ID)
    values, literals = _values(extra, _VARIABLES)
    return Reference(
        name=_name_in(extra, _ID),
        version=_name_in(extra, _VERSION),
        values=values,
        literals=literals,
    )


def names_no_chat(request: Request) -> str:
    """Return the field by which a request that is no chat names a prompt, "" if it does not."""
    return next((one for one in (_ID, _VERSION, _VARIABLES) if one in request.extra), "")


def without_reference(extra: dict[str, Raw]) -> dict[str, Raw]:
    """Return the fields that backends may get."""
    return {name: raw for name, raw in extra.items() if name not in REFERENCE_FIELDS}


def _of_object(extra: Mapping[str, Raw]) -> Reference:
    if _ID in extra:
        told = f"{_OBJECT} and {_ID} mean the same; send only one of them"
        raise InvalidRequest(told, param=_OBJECT)
    inner = _members(extra[_OBJECT], _OBJECT)
    unknown = sorted(inner.keys() - _MEMBERS)
    if unknown:
        shown = unknown[0][:_LONGEST_NAME]
        told = f"{_OBJECT} has id, version and variables, and no {shown!r}"
        raise InvalidRequest(told, param=_OBJECT)
    if "id" not in inner:
        raise InvalidRequest(f"{_OBJECT}.id is required", param=f"{_OBJECT}.id")
    values, literals = _values(inner, "variables", f"{_OBJECT}.")
    return Reference(
        name=_name_in(inner, "id", f"{_OBJECT}."),
        version=_name_in(inner, "version", f"{_OBJECT}."),
        values=values,
        literals=literals,
        id_field=f"{_OBJECT}.id",
        version_field=f"{_OBJECT}.version",
        values_field=f"{_OBJECT}.variables",
    )


def _of_header(value: str) -> Reference:
    name, _, version = value.strip().partition("@")
    return Reference(name=name, version=version, id_field=HEADER, version_field=HEADER)


def _members(raw: Raw, field: str) -> dict[str, Raw]:
    """Return the members that are not null."""
    try:
        found = _fields.decode(raw)
    except (DecodeError, RecursionError) as exc:
        shown = " with id, version and variables" if field == _OBJECT else ""
        raise InvalidRequest(f"{field} must be an object{shown}", param=field) from exc
    return {name: one for name, one in found.items() if bytes(one) != b"null"}


def _name_in(fields: Mapping[str, Raw], name: str, parent: str = "") -> str:
    """Return a name, also one that is sent as a number; "" if it is absent."""
    raw = fields.get(name)
    if raw is None:
        return ""
    try:
        return str(_name.decode(raw))
    except (DecodeError, RecursionError) as exc:
        field = parent + name
        raise InvalidRequest(f"{field} must be a string", param=field) from exc


def _values(
    fields: Mapping[str, Raw], name: str, parent: str = ""
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the values as texts, and the names of those that came as numbers or booleans."""
    raw = fields.get(name)
    if raw is None:
        return {}, ()
    field = parent + name
    members = _members(raw, field)
    literals = tuple(key for key, one in members.items() if bytes(one)[0] in _LITERAL_STARTS)
    return {key: _value_of(one, key, field) for key, one in members.items()}, literals


def _value_of(raw: Raw, key: str, field: str) -> str:
    """Return a value; a number or a boolean as it is written in JSON, so that no digit is lost."""
    if bytes(raw)[0] in _LITERAL_STARTS:
        return bytes(raw).decode()
    try:
        found = _value.decode(raw)
    except (DecodeError, RecursionError) as exc:
        where = f"{field}.{key[:_LONGEST_NAME]}"
        told = f"{where} must be a string, or an object of type input_text: fields are texts"
        raise InvalidRequest(told, param=where) from exc
    return found if isinstance(found, str) else found.text
