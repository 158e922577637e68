"""OpenAI's codex. https://developers.openai.com/codex/config-reference

It reads providers from the user's own configuration alone. Of a model that is not in its catalog
it assumes little, so a catalog with the gateway's model is written besides.
"""

from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.cli.agents.documents.document import Value
from strowger_gateway.gateway.cli.agents.tools.tool import (
    KEY,
    AgentSetting,
    AgentTarget,
    At,
    Dialect,
    SettingsFile,
    SettingsPlace,
    known,
    set_values,
)

PROVIDER: Final = "strowger"
_NAMED: Final = AgentSetting(("model_providers", PROVIDER, "name"), "Strowger", default=True)
"""With the name "OpenAI" codex would ask the server for summaries, which it makes as well itself,
and add `internal_chat_message_metadata_passthrough` to each item. So that name is a user's choice,
and stays."""


class Codex:
    """See Tool."""

    name = "codex"
    title = "codex"
    program = "codex"
    dialect: Dialect = "responses"
    key_variable = KEY
    ca_variable = "CODEX_CA_CERTIFICATE"
    overriding = ()
    project = False
    url_at = At(path=("model_providers", PROVIDER, "base_url"), after="/v1")
    model_at = At(path=("model",))
    key_at = At(path=("model_providers", PROVIDER, "experimental_bearer_token"))

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        folder = place.folder(".codex", "CODEX_HOME")
        catalog = folder / "strowger-models.json"
        provider: dict[str, Value] = {
            "base_url": f"{target.url}/v1",
            "wire_api": "responses",
            "env_key": None if target.secret else KEY,
            "experimental_bearer_token": target.secret or None,
        }
        settings = set_values(
            {
                "model": target.model,
                "model_provider": PROVIDER,
                "model_context_window": target.context,
                "model_catalog_json": str(catalog),
                ("model_providers", PROVIDER): provider,
            }
        )
        return (
            SettingsFile(
                path=folder / "config.toml",
                form="toml",
                settings=(_NAMED, *settings),
                holds_secret=bool(target.secret),
            ),
            SettingsFile(
                path=catalog,
                form="json",
                settings=set_values({"models": [_described(target)]}),
                whole=True,
            ),
        )

    def notes(self, target: AgentTarget) -> Sequence[str]:
        return ()


def _described(target: AgentTarget) -> Value:
    """Return what codex wants to know of a model."""
    return {
        "slug": target.model,
        "display_name": target.model,
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "base_instructions": "You are a coding agent.",
        "shell_type": "unified_exec",
        "apply_patch_tool_type": "freeform",
        "supports_parallel_tool_calls": True,
        "supported_reasoning_levels": [],
        "supports_reasoning_summaries": True,
        "support_verbosity": True,
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "experimental_supported_tools": [],
        **known({"context_window": target.context}),
    }
