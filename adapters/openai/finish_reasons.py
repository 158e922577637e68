"""Finish reasons of the OpenAI dialect, and their meaning."""

from collections.abc import Mapping

from strowger_gateway.schemas.events import FinishReason

FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "function_call": "function_call",
    "": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "tool_call": "tool_calls",
    "sensitive": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "refusal": "content_filter",
}
"""A server's reason in lower case -> ours; any other is a `stop` with its native reason."""

FAILED = frozenset(
    {
        "error",
        "failed",
        "abort",
        "aborted",
        "timeout",
        "network_error",
        "insufficient_system_resource",
        "malformed_function_call",
        "malformed_model_output",
        "malformed_tool_use",
        "unexpected_tool_call",
    }
)
"""Reasons for a failed answer; none of them may be treated as a regular end."""
