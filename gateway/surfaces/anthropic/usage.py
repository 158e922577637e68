"""Token counts as the Messages API gives them: cached tokens are not among `input_tokens`."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import DecodeError, Raw

from strowger_gateway.gateway.surfaces.openai.usage import MAX_BYTES
from strowger_gateway.schemas.events import Usage

NO_USAGE: Final = b'{"input_tokens":0,"output_tokens":0}'
"""For `message_start` of a backend that counts at the end: its counts follow in `message_delta`."""

_members: Final = msgspec.json.Decoder(dict[str, Raw])
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode

_OWN: Final = frozenset({"input_tokens", "output_tokens"})
_OTHERS: Final = frozenset({"prompt_tokens", "total_tokens"})
"""Counts of other formats, whose `input_tokens` include the cached ones."""


def usage_json(usage: Usage | None) -> bytes:
    """Return the counts. Clients require both totals, so one that is unknown is 0."""
    if usage is None:
        return NO_USAGE
    vendor = _vendor(usage.raw)
    if vendor:
        return _encode(vendor)
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    prompt = (usage.prompt_tokens or 0) - (cached or 0) - (written or 0)
    fields: dict[str, object] = {
        "input_tokens": max(prompt, 0),
        "output_tokens": usage.completion_tokens or 0,
    }
    if written is not None:
        fields["cache_creation_input_tokens"] = written
        long = usage.cache_write_1h_tokens
        if long is not None:
            fields["cache_creation"] = {
                "ephemeral_5m_input_tokens": max(written - long, 0),
                "ephemeral_1h_input_tokens": long,
            }
    if cached is not None:
        fields["cache_read_input_tokens"] = cached
    if usage.reasoning_tokens is not None:
        fields["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return _encode(fields)


def _vendor(raw: Raw | None) -> dict[str, Raw]:
    """Return the vendor's object if it is in this API's format."""
    if raw is None or len(memoryview(raw)) > MAX_BYTES or b'"input_tokens"' not in bytes(raw):
        return {}
    try:
        found = _members.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if found.keys() >= _OWN and _OTHERS.isdisjoint(found) else {}
