"""Gemini's finish reasons, and their meaning.

https://ai.google.dev/api/generate-content#FinishReason
"""

from collections.abc import Mapping

from strowger_gateway.schemas.events import FinishReason

FINISH: Mapping[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "OTHER": "content_filter",
    "IMAGE_OTHER": "content_filter",
    "NO_IMAGE": "content_filter",
}
"""Gemini's reasons -> ours; one in neither table is a `stop` with its native reason."""

FAILED = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "PUP_LIMITED_DISABLED",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
"""Reasons for an unusable answer."""
