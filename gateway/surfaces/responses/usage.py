"""Token counts as the Responses API gives them."""

from typing import Final

import msgspec
from msgspec import DecodeError, Raw

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.openai.usage import MAX_BYTES
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.schemas.events import Usage

_PLAIN: Final = (
    b'{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},'
    b'"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}'
)


_OWN: Final = frozenset({"input_tokens", "output_tokens", "total_tokens"})
_DETAILS: Final = {
    "input_tokens_details": {"cached_tokens": Raw(b"0"), "cache_write_tokens": Raw(b"0")},
    "output_tokens_details": {"reasoning_tokens": Raw(b"0")},
}
_members: Final = msgspec.json.Decoder(dict[str, Raw])


def usage_json(usage: Usage | None) -> bytes:
    """Return the counts; null if the backend counted nothing. Clients require every number.

    Those of a backend of this API are passed on with all that it counts besides.
    """
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return b"null"
    vendor = _vendor(usage.raw)
    if vendor:
        details = {name: zeros | _object(vendor.get(name)) for name, zeros in _DETAILS.items()}
        return one_line(encode({**vendor, **details}))
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    total = usage.total_tokens
    return _PLAIN % (
        prompt,
        usage.cached_tokens or 0,
        usage.cache_write_tokens or 0,
        completion,
        usage.reasoning_tokens or 0,
        prompt + completion if total is None else total,
    )


def _vendor(raw: Raw | None) -> dict[str, Raw]:
    """Return the vendor's object if it is in this API's format."""
    if raw is None or len(memoryview(raw)) > MAX_BYTES or b'"input_tokens"' not in bytes(raw):
        return {}
    found = _object(raw)
    return found if found.keys() >= _OWN and "prompt_tokens" not in found else {}


def _object(raw: Raw | None) -> dict[str, Raw]:
    """Return the members that are not null; {} for another value."""
    try:
        found = {} if raw is None else _members.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return {name: one for name, one in found.items() if bytes(one) != b"null"}
