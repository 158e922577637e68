"""`extra_params`: fields for which the `query` method of the service's SDK has no argument.

A map of strings, each the JSON of a top-level field's value: `{"top_k": "1", "echo": "true"}`.
https://docs.databricks.com/api/workspace/servingendpoints/query
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import DecodeError, Raw

from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.measured_json import kind_of_json

FIELD: Final = "extra_params"
TEXTS: Final = frozenset(
    {
        "encoding_format",
        "error_behavior",
        "instruction",
        "model",
        "reasoning_effort",
        "stop",
        "suffix",
        "user",
    }
)
"""Fields whose value is the string itself, never JSON."""

_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_texts: Final = msgspec.json.Decoder(dict[str, str])
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


def merge_extra_params(body: bytes, extra: Raw) -> bytes:
    """Return the body with these fields at its top level.

    body: a JSON object that has `extra` under `extra_params`.
    Raises InvalidRequest for anything but a map of strings, and for a field that is sent twice.
    """
    try:
        texts = _texts.decode(extra)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, FIELD, {FIELD: "an object whose values are strings"}) from exc
    fields = _fields.decode(body)
    del fields[FIELD]
    for name, text in texts.items():
        if name in fields and not is_null(fields[name]):
            where = f"{FIELD}.{name}"
            raise InvalidRequest(f"{where} is also in the body; send it only once", param=where)
        fields[name] = _value(name, text)
    return _encode(fields)


def _value(name: str, text: str) -> Raw:
    if name not in TEXTS:
        return Raw(text.encode() if kind_of_json(text) else _encode(text))
    return Raw(_encode(text))
