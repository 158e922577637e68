"""Fields that do not change an answer's meaning: a backend that lacks one answers without it.

The client gets the names of omitted fields. `require: true` (models[].require) makes hints as
strict as all other fields.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Raw

from strowger_gateway.schemas.requests import EmbeddingsRequest, Request, TokenRequest

KNOWN: Final = frozenset({"user", "metadata", "reasoning_effort", "priority"})
"""Fields of our schema. `reasoning_effort` is a hint for backends whose models do not reason, and
`priority` for those that serve all requests alike."""

_CACHES: Final = (
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "safety_identifier",
    "verbosity",
)
_TIERS: Final = frozenset({"auto", "default", "standard_only"})
HEADERS: Final = frozenset({"anthropic-beta"})
"""Fields that are headers in their dialect: this one selects versions of Anthropic's features."""
_CLAUDES: Final = (*HEADERS, "cache_control", "diagnostics")
"""Of Anthropic's Messages API."""


_GOOGLES: Final = (
    "audioTimestamp",
    "enableEnhancedCivicAnswers",
    "labels",
    "mediaResolution",
    "safetySettings",
)
"""Of the Gemini API: what the answer says is the same without them."""


_OF_EMBEDDINGS: Final = frozenset({"taskType", "title"})
"""Google's hints about a text to embed."""


def _always(_: Raw) -> bool:
    return True


def _is_false(value: Raw) -> bool:
    return bytes(value) == b"false"


def _is_any_tier(value: Raw) -> bool:
    return bytes(value).strip(b'"').decode("utf-8", "replace") in _TIERS


def _is_standard(value: Raw) -> bool:
    return bytes(value) == b'"standard"'


def _chooses_nothing(value: Raw) -> bool:
    """Whether a `toolConfig` says nothing about which functions are called."""
    return b'"functionCallingConfig"' not in bytes(value)


def _is_off(value: Raw) -> bool:
    """Whether it only asks for no reasoning: a backend may have no word for that."""
    return bytes(value).translate(None, b" \t\r\n") == b'{"type":"disabled"}'


EXTRA: Final[Mapping[str, Callable[[Raw], bool]]] = MappingProxyType(
    {
        **dict.fromkeys(_CACHES, _always),
        **dict.fromkeys(_CLAUDES, _always),
        **dict.fromkeys(_GOOGLES, _always),
        "toolConfig": _chooses_nothing,
        "speed": _is_standard,
        "thinking": _is_off,
        "context_management": _always,
        "store": _is_false,
        "service_tier": _is_any_tier,
        "stream_options.include_obfuscation": _always,
        "stream_options.continuous_usage_stats": _always,
    }
)
"""Fields outside our schema, and the values that make them hints. `stream_options` by member."""


def is_hint(request: Request, field: str) -> bool:
    """field: a name of schemas/fields.py, or of `request.extra`.

    Always false for a token request: its dialects have no such fields.
    """
    if isinstance(request, TokenRequest):
        return False
    if field in KNOWN or (field in _OF_EMBEDDINGS and isinstance(request, EmbeddingsRequest)):
        return True
    judge = EXTRA.get(field)
    value = request.extra.get(field.partition(".")[0])
    return judge is not None and value is not None and judge(value)
