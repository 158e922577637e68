"""All agents that can be set up: a new one is a module and a row here."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.cli.agents.tools.aider import Aider
from strowger_gateway.gateway.cli.agents.tools.claude_code import ClaudeCode
from strowger_gateway.gateway.cli.agents.tools.cline import Cline
from strowger_gateway.gateway.cli.agents.tools.codex import Codex
from strowger_gateway.gateway.cli.agents.tools.continue_dev import Continue
from strowger_gateway.gateway.cli.agents.tools.gemini_cli import GeminiCli
from strowger_gateway.gateway.cli.agents.tools.opencode import KiloCode, Opencode
from strowger_gateway.gateway.cli.agents.tools.qwen_code import QwenCode
from strowger_gateway.gateway.cli.agents.tools.tool import Tool

_TOOLS: Final[tuple[Tool, ...]] = (
    ClaudeCode(),
    Codex(),
    Opencode(),
    QwenCode(),
    GeminiCli(),
    Cline(),
    Continue(),
    Aider(),
    KiloCode(),
)

TOOLS: Final[Mapping[str, Tool]] = {one.name: one for one in _TOOLS}
"""By name, in the order of the documents."""
