"""Cline's command line. https://docs.cline.bot/cline-cli

It keeps a key in its own settings, or reads OpenAI's variable. Its extension of VS Code keeps
settings where no other program can write them.
"""

from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.cli.agents.documents.document import Value
from strowger_gateway.gateway.cli.agents.tools.tool import (
    AgentTarget,
    At,
    Dialect,
    SettingsFile,
    SettingsPlace,
    defaults,
    set_values,
)

PROVIDER: Final = "openai-compatible"
WRITTEN: Final = "2026-01-01T00:00:00.000Z"
"""Cline wants a time; one that does not change keeps the file the same."""


class Cline:
    """See Tool."""

    name = "cline"
    title = "Cline"
    program = "cline"
    dialect: Dialect = "chat"
    key_variable = "OPENAI_API_KEY"
    ca_variable = "NODE_EXTRA_CA_CERTS"
    overriding = ()
    project = False
    url_at = At(path=("providers", PROVIDER, "settings", "baseUrl"), after="/v1")
    model_at = At(path=("providers", PROVIDER, "settings", "model"))
    key_at = At(path=("providers", PROVIDER, "settings", "apiKey"))

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        provider: dict[str, Value] = {
            "provider": PROVIDER,
            "model": target.model,
            "baseUrl": f"{target.url}/v1",
            "apiKey": target.secret or None,
            "maxTokens": target.max_output,
            "contextWindow": target.context,
        }
        settings = set_values(
            {
                "lastUsedProvider": PROVIDER,
                ("providers", PROVIDER): {
                    "settings": provider,
                    "updatedAt": WRITTEN,
                    "tokenSource": "manual",
                },
            }
        )
        folder = place.folder(".cline/data", "CLINE_DATA_DIR")
        return (
            SettingsFile(
                path=folder / "settings" / "providers.json",
                form="json",
                settings=(*defaults({"version": 1, "modes": {}}), *settings),
                holds_secret=bool(target.secret),
            ),
        )

    def notes(self, target: AgentTarget) -> Sequence[str]:
        return (
            "in VS Code: Settings, API Provider `OpenAI Compatible`, Base URL "
            f"{target.url}/v1, Model ID {target.model}",
        )
