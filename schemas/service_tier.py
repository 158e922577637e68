"""The service tiers of vendors: which one a request names, and which one an answer was served in.

A tier is a name in lower case, "" for the vendor's standard one. Vendors name it in several ways:
OpenAI and those like it `service_tier` (https://platform.openai.com/docs/guides/priority-processing),
Anthropic `service_tier` and `speed` in its usage (https://docs.anthropic.com/en/api/service-tiers),
Gemini `serviceTier` and `trafficType` in its usage, Bedrock `serviceTier.type` and
`performanceConfig.latency`
(https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html).
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

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
