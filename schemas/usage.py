"""What an answer is billed by: its token counts, and the service tier that answered.

Counts are an event, and what a failed attempt has used. A service tier is a name in lower case, ""
for the vendor's standard one. Vendors name it in several ways: OpenAI and those like it
`service_tier` (https://platform.openai.com/docs/guides/priority-processing), Anthropic
`service_tier` and `speed` in its usage (https://docs.anthropic.com/en/api/service-tiers), Gemini
`serviceTier` and `trafficType` in its usage, Bedrock `serviceTier.type` and
`performanceConfig.latency`
(https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html).
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

MOST_TOKENS = 2**31 - 1
"""The largest plausible count for one answer; a larger count is treated as missing."""

STANDARD: Final = frozenset(
    {
        *("", "auto", "default", "standard", "standard_only", "on_demand", "unspecified"),
        *("traffic_type_unspecified", "provisioned_throughput", "reserved", "scale"),
    }
)
"""Names of the standard tier, and of capacity that is paid for apart from its tokens."""

_NAMES: Final = ("service_tier", "serviceTier", "trafficType", "speed", "performanceConfig")
_MARKS: Final = (b"ervice_tier", b"erviceTier", b"trafficType", b"speed")
"""One of them is in a usage object that names a tier."""
_PAY_AS_YOU_GO: Final = "on_demand_"


class Usage(Struct, frozen=True, kw_only=True, tag="usage", gc=False):
    """Totals so far over all choices; a later one replaces an earlier one.

    prompt_tokens includes cached_tokens and cache_write_tokens; cache_write_tokens includes
    cache_write_1h_tokens, which the vendor keeps for an hour at a higher price;
    completion_tokens includes reasoning_tokens. `None`: the backend sent no count (not the same as
    0), or an impossible one: below 0, or above MOST_TOKENS.
    raw: the vendor's own object.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    raw: Raw | None = None

    def __post_init__(self) -> None:
        # One check for all: the bitwise OR of numbers within a mask is within it; a negative shows.
        bits = (self.prompt_tokens or 0) | (self.completion_tokens or 0) | (self.total_tokens or 0)
        bits |= (self.cached_tokens or 0) | (self.cache_write_tokens or 0)
        bits |= self.cache_write_1h_tokens or 0
        if 0 <= bits | (self.reasoning_tokens or 0) <= MOST_TOKENS:
            return
        for name in _COUNTS:
            count: int | None = getattr(self, name)
            if count is not None and not 0 <= count <= MOST_TOKENS:
                msgspec.structs.force_setattr(self, name, None)


_COUNTS = tuple(field for field in Usage.__struct_fields__ if field != "raw")


class _Object(Struct, frozen=True):
    type: str = ""
    latency: str = ""


_read = msgspec.json.Decoder(str | _Object | None).decode
_read_fields: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


def tier_named(name: str) -> str:
    """Return the tier of a vendor's name for it."""
    tier = name.lower()
    return "" if tier in STANDARD else tier.removeprefix(_PAY_AS_YOU_GO)


def tier_in(fields: Mapping[str, Raw]) -> str | None:
    """Return the tier that fields of a request or an answer name; `None` if they name none."""
    found: str | None = None
    for name in _NAMES:
        if name in fields:
            tier = _tier_of(fields[name])
            if tier:
                return tier
            found = tier if tier is not None else found
    return found


def tier_in_usage(raw: Raw | None) -> str | None:
    """Return the tier that a vendor's own usage object names; `None` if it names none."""
    text = b"" if raw is None else bytes(raw)
    if not any(mark in text for mark in _MARKS):
        return None
    try:
        return tier_in(_read_fields.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _tier_of(raw: Raw) -> str | None:
    """Return the tier of a field's value; `None` if it is not one."""
    try:
        value = _read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if value is None:
        return None
    return tier_named(value if isinstance(value, str) else value.type or value.latency)
