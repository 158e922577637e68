"""Token counts in the OpenAI dialect, with the members that only a vendor's `usage` has.

Ours are OpenAI's five. Every other member of the vendor's object is added under the vendor's own
name, with the vendor's value; none replaces one of ours.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.schemas.events import Usage

MAX_BYTES: Final = 16_384
"""Maximum size of a vendor's `usage`; of a larger one, clients get only the counts we parse."""

_PROMPT: Final = "prompt_tokens_details"
_COMPLETION: Final = "completion_tokens_details"
_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")

_members: Final = msgspec.json.Decoder(dict[str, Raw])
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode

_Fields = dict[str, object]


class _Counts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None


_PLAIN_BYTES: Final = 96
"""Maximum bytes of an object with only the three counts."""

_counts: Final = msgspec.json.Decoder(_Counts)


def usage_json(usage: Usage) -> bytes:
    """Return totals, details, and the vendor's members. A count that the backend omits is null."""
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    details = cached is not None or written is not None or usage.reasoning_tokens is not None
    if not details and _has_only_counts(usage.raw):
        return _encode(
            _Counts(
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                total_tokens=_total(usage),
            )
        )
    vendor = _vendor_fields(usage.raw)
    fields: _Fields = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": _total(usage),
    }
    if cached is not None or written is not None or _PROMPT in vendor:
        ours = {"cached_tokens": cached, "cache_write_tokens": written}
        _add_details(fields, _PROMPT, vendor, ours)
    if usage.reasoning_tokens is not None or _COMPLETION in vendor:
        _add_details(fields, _COMPLETION, vendor, {"reasoning_tokens": usage.reasoning_tokens})
    return _with_vendor_fields(fields, vendor)


def embeddings_usage_json(usage: Usage) -> bytes | None:
    """Return the same without completion tokens; `None` if the backend counted nothing.

    All tokens of an embedding belong to the prompt, so either count can replace the other.
    """
    prompt = usage.total_tokens if usage.prompt_tokens is None else usage.prompt_tokens
    total = usage.prompt_tokens if usage.total_tokens is None else usage.total_tokens
    if prompt is None:
        return None
    fields: _Fields = {"prompt_tokens": prompt, "total_tokens": total}
    return _with_vendor_fields(fields, _vendor_fields(usage.raw))


def _total(usage: Usage) -> int | None:
    if usage.total_tokens is not None:
        return usage.total_tokens
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return usage.prompt_tokens + usage.completion_tokens


def _has_only_counts(raw: Raw | None) -> bool:
    """Return True for what most servers send, without building a dict; a longer object has more."""
    if raw is None:
        return True
    if len(memoryview(raw)) > _PLAIN_BYTES:
        return False
    try:
        _counts.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _vendor_fields(raw: Raw | None) -> dict[str, Raw]:
    """Return the vendor's members; none if it sent no object, or one that is too large."""
    return {} if raw is None or len(memoryview(raw)) > MAX_BYTES else _object(raw)


def _object(raw: Raw) -> dict[str, Raw]:
    try:
        return _members.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _add_details(
    fields: _Fields, name: str, vendor: dict[str, Raw], ours: Mapping[str, int | None]
) -> None:
    """Merge details into `fields`; removes the vendor's members of these details from `vendor`."""
    raw = vendor.pop(name, None)
    details: _Fields = {} if raw is None else dict(_object(raw))
    details |= {key: count for key, count in ours.items() if count is not None}
    if details:
        fields[name] = details


def _with_vendor_fields(fields: _Fields, vendor: Mapping[str, Raw]) -> bytes:
    for name, raw in vendor.items():
        if name not in _COUNTS and name not in fields:
            fields[name] = raw
    return _encode(fields)
