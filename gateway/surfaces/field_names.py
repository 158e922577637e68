"""Names of fields in errors, as a client of another API than chat completions knows them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from schemas.errors import GatewayError

RESPONSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "reasoning_effort": "reasoning.effort",
        "response_format": "text.format",
        "verbosity": "text.verbosity",
    }
)
MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "response_format": "output_config.format",
        "stop": "stop_sequences",
        "user": "metadata.user_id",
    }
)
"""Fields of chat completions, and their names in each API."""


def rename_field(exc: GatewayError, names: Mapping[str, str]) -> GatewayError:
    """Give the error the client's name of its field. Returns the error."""
    exc.param = names.get(exc.param or "", exc.param)
    return exc
