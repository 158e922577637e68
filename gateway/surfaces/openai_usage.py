"""Token counts in the OpenAI dialect."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType

from schemas.events import Usage


class _UsageWire(Struct, frozen=True, kw_only=True):
    """A count of `None` is one that the backend did not tell."""

    prompt_tokens: int | None
    completion_tokens: int | None | UnsetType = UNSET
    total_tokens: int | None
    prompt_tokens_details: dict[str, int | Raw] | UnsetType = UNSET
    completion_tokens_details: dict[str, int | Raw] | UnsetType = UNSET


class _VendorDetails(Struct, frozen=True, kw_only=True):
    prompt_tokens_details: dict[str, Raw] | None = None
    completion_tokens_details: dict[str, Raw] | None = None


_NO_DETAILS: Final = _VendorDetails()
_details: Final = msgspec.json.Decoder(_VendorDetails)
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


def usage_json(usage: Usage) -> bytes:
    """Totals, with the details that are known and those that a vendor of the dialect added."""
    vendor = _vendor_details(usage.raw)
    prompt: dict[str, int | Raw] = {**(vendor.prompt_tokens_details or {})}
    completion: dict[str, int | Raw] = {**(vendor.completion_tokens_details or {})}
    if usage.cached_tokens is not None:
        prompt["cached_tokens"] = usage.cached_tokens
    if usage.cache_write_tokens is not None:
        prompt["cache_write_tokens"] = usage.cache_write_tokens
    if usage.reasoning_tokens is not None:
        completion["reasoning_tokens"] = usage.reasoning_tokens
    return _encode(
        _UsageWire(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            total_tokens=_total(usage),
            prompt_tokens_details=prompt or UNSET,
            completion_tokens_details=completion or UNSET,
        )
    )


def embeddings_usage_json(usage: Usage) -> bytes:
    """The same without completion tokens, which an embedding does not have."""
    total = usage.prompt_tokens if usage.total_tokens is None else usage.total_tokens
    return _encode(_UsageWire(prompt_tokens=usage.prompt_tokens, total_tokens=total))


def _total(usage: Usage) -> int | None:
    if usage.total_tokens is not None:
        return usage.total_tokens
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return usage.prompt_tokens + usage.completion_tokens


def _vendor_details(raw: Raw | None) -> _VendorDetails:
    """Nothing where a vendor uses these names for something else, or they cannot be read."""
    if raw is None:
        return _NO_DETAILS
    try:
        return _details.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return _NO_DETAILS
