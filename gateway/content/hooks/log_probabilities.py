"""Log probabilities within a vendor's own JSON: they repeat a text, token by token."""

from typing import Final, cast

import msgspec
from msgspec import Raw

_NAME: Final = "logprobs"
_decode = msgspec.json.Decoder().decode


def without_logprobs(raw: Raw) -> Raw:
    """Return a JSON value with empty lists in place of log probabilities."""
    if b'"logprobs"' not in bytes(raw):
        return raw
    value: object = _decode(raw)
    return Raw(msgspec.json.encode(value)) if _emptied(value) else raw


def _emptied(value: object) -> bool:
    """Empty them in place; return whether there were any."""
    found = False
    if isinstance(value, list):
        for one in cast("list[object]", value):
            found |= _emptied(one)
    elif isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if fields.get(_NAME):
            fields[_NAME] = []
            found = True
        for one in fields.values():
            found |= _emptied(one)
    return found
