"""Claude Code. https://code.claude.com/docs/en/settings, https://code.claude.com/docs/en/llm-gateway

The key comes from a helper command, so that a settings file, which has variables for Claude Code
itself, holds no secret.
"""

from collections.abc import Sequence

from strowger_gateway.gateway.cli.agents.documents.document import Value
from strowger_gateway.gateway.cli.agents.tools.tool import (
    KEY,
    AgentTarget,
    At,
    Dialect,
    SettingsFile,
    SettingsPlace,
    set_values,
)


class ClaudeCode:
    """See Tool."""

    name = "claude-code"
    title = "Claude Code"
    program = "claude"
    dialect: Dialect = "messages"
    key_variable = KEY
    ca_variable = "NODE_EXTRA_CA_CERTS"
    overriding = (
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    )
    project = True
    url_at = At(path=("env", "ANTHROPIC_BASE_URL"))
    model_at = At(path=("env", "ANTHROPIC_MODEL"))
    key_at = At(path=("env", "ANTHROPIC_AUTH_TOKEN"))

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        models = ("MODEL", *(f"DEFAULT_{kind}_MODEL" for kind in ("HAIKU", "SONNET", "OPUS")))
        values: dict[str, Value] = {
            "ANTHROPIC_BASE_URL": target.url,
            **{f"ANTHROPIC_{name}": target.model for name in models},
            "ANTHROPIC_AUTH_TOKEN": target.secret or None,
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": _text(target.context),
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": _text(target.max_output),
        }
        helper = None if target.secret else f"printenv {KEY}"
        settings = set_values({("env", name): value for name, value in values.items()})
        return (
            SettingsFile(
                path=place.folder(".claude", "CLAUDE_CONFIG_DIR") / "settings.json",
                form="json",
                settings=(*settings, *set_values({"apiKeyHelper": helper})),
                holds_secret=bool(target.secret),
            ),
        )

    def notes(self, target: AgentTarget) -> Sequence[str]:
        return ()


def _text(count: int | None) -> str | None:
    """Variables are texts."""
    return None if count is None else str(count)
