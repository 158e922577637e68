"""Reads what vendors answer when they only count the tokens of a conversation."""

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.errors import UpstreamBroken

_count = msgspec.json.Decoder(int).decode
_NOTHING = Raw(b"null")


def counted(endpoint: Endpoint, body: bytes, field: str) -> int:
    """Return the count in a field of the answer. Raises UpstreamBroken if there is none."""
    try:
        found = _count(read_object(body).get(field, _NOTHING))
    except UNREADABLE as exc:
        raise UpstreamBroken("cannot read the count of tokens", upstream=endpoint.name) from exc
    if found < 0:
        raise UpstreamBroken(f"counts {found} tokens", upstream=endpoint.name)
    return found
