"""Google's Gemini CLI. https://geminicli.com/docs/reference/configuration/

It reads the address from a variable, which its own `.env` file may hold. A project's `.env` would
hide that file, and the key would go to Google, so its settings make it read none. It takes every
model's context for a million tokens: a smaller one is expressed as the share at which it
compresses.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strowger_gateway.gateway.cli.agents.tools.tool import (
    AgentTarget,
    At,
    Dialect,
    SettingsFile,
    SettingsPlace,
    set_values,
)

ASSUMED: Final = 1_048_576
"""Tokens of context that it assumes of a model."""

USED: Final = 0.7
"""The share of the real context at which it compresses; an answer needs the rest."""


class GeminiCli:
    """See Tool."""

    name = "gemini-cli"
    title = "Gemini CLI"
    program = "gemini"
    dialect: Dialect = "gemini"
    key_variable = "GEMINI_API_KEY"
    ca_variable = "NODE_EXTRA_CA_CERTS"
    overriding = ("GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", "GOOGLE_GENAI_USE_VERTEXAI")
    project = True
    url_at = At(path=("GOOGLE_GEMINI_BASE_URL",), file=1)
    model_at = At(path=("model", "name"))
    key_at = At(path=("GEMINI_API_KEY",), file=1)

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        base = "" if place.project is not None else place.env.get("GEMINI_CLI_HOME", "")
        folder = Path(base) / ".gemini" if base else place.folder(".gemini")
        share = None
        if target.context is not None and target.context < ASSUMED:
            share = max(0.0001, round(USED * target.context / ASSUMED, 4))
        settings = set_values(
            {
                ("security", "auth", "selectedType"): "gemini-api-key",
                ("model", "name"): target.model,
                ("model", "compressionThreshold"): share,
                ("advanced", "ignoreLocalEnv"): True,
            }
        )
        variables = set_values(
            {
                "GOOGLE_GEMINI_BASE_URL": target.url,
                "GEMINI_API_KEY": target.secret or None,
            }
        )
        return (
            SettingsFile(path=folder / "settings.json", form="json", settings=settings),
            SettingsFile(
                path=folder / ".env",
                form="env",
                settings=variables,
                holds_secret=bool(target.secret),
            ),
        )

    def notes(self, target: AgentTarget) -> Sequence[str]:
        return ()
