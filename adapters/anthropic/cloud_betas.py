"""The names in `anthropic-beta` that Bedrock and Vertex AI accept, as far as they are documented.

Both answer 400 to any other name. What the lists lack, an operator adds with `client_fields.allow`.
"""

from typing import Final

from strowger_gateway.adapters.anthropic.claude_models import refuses_budgets
from strowger_gateway.adapters.repairs.betas import Betas

INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
LONG_CONTEXT: Final = "context-1m-2025-08-07"
"""Selects a tier of higher prices."""

_COMPUTER: Final = "computer-use-2025-11-24"
_EARLIER: Final = frozenset(
    {
        INTERLEAVED,
        LONG_CONTEXT,
        _COMPUTER,
        "compact-2026-01-12",
        "computer-use-2024-10-22",
        "computer-use-2025-01-24",
        "context-management-2025-06-27",
        "dev-full-thinking-2025-05-14",
        "effort-2025-11-24",
        "fine-grained-tool-streaming-2025-05-14",
        "output-128k-2025-02-19",
        "token-efficient-tools-2025-02-19",
        "tool-examples-2025-10-29",
        "tool-search-tool-2025-10-19",
    }
)
_LATER: Final = frozenset({INTERLEAVED, _COMPUTER})

BEDROCK_SOURCE: Final = (
    "https://docs.aws.amazon.com/bedrock/latest/userguide/"
    "model-parameters-anthropic-claude-messages-request-response.html"
)
BEDROCK_BETAS: Final = Betas(
    accepted=lambda model: _LATER if refuses_budgets(model) else _EARLIER,
    field="anthropic_beta",
    withheld=frozenset({LONG_CONTEXT}),
)
"""From Claude 4.7 on, Bedrock accepts far fewer:
https://github.com/anthropics/claude-code/issues/49370
https://github.com/anthropics/claude-code/issues/56595
https://platform.claude.com/docs/en/models/opus-5-5/migration-guide (computer use)"""

VERTEX_SOURCE: Final = "https://github.com/anthropics/claude-agent-sdk-typescript/issues/307"
_SEARCHES: Final = "tool-search-tool-2025-10-19"
_ON_VERTEX: Final = frozenset(
    {
        INTERLEAVED,
        LONG_CONTEXT,
        _COMPUTER,
        _SEARCHES,
        "compact-2026-01-12",
        "computer-use-2025-01-24",
        "context-management-2025-06-27",
        "thinking-binding-controls-2026-08-01",
        "thinking-display-updates-2026-08-18",
        "web-search-2025-03-05",
    }
)
VERTEX_BETAS: Final = Betas(
    accepted=lambda _: _ON_VERTEX,
    needed={_SEARCHES: "tool_search_tool", "web-search-2025-03-05": "web_search"},
    renamed={"advanced-tool-use-2025-11-20": _SEARCHES},
)
"""https://github.com/BerriAI/litellm/pull/41203 tested most of them."""
