"""Qwen Code. https://qwenlm.github.io/qwen-code-docs/en/users/configuration/model-providers/"""

from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.cli.agents.documents.document import ListItem, Value
from strowger_gateway.gateway.cli.agents.tools.tool import (
    KEY,
    AgentTarget,
    At,
    Dialect,
    SettingsFile,
    SettingsPlace,
    set_values,
)

_OURS: Final = ListItem("envKey", KEY)
"""The entry of this gateway, whatever its model and address."""

_INPUTS: Final = {"image": "image", "audio": "audio", "video": "video", "file": "pdf"}


class QwenCode:
    """See Tool."""

    name = "qwen-code"
    title = "Qwen Code"
    program = "qwen"
    dialect: Dialect = "chat"
    key_variable = KEY
    ca_variable = "NODE_EXTRA_CA_CERTS"
    overriding = ()
    project = True
    url_at = At(path=("modelProviders", "openai", _OURS, "baseUrl"), after="/v1")
    model_at = At(path=("modelProviders", "openai", _OURS, "id"))
    key_at = At(path=("env", KEY))

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        reads: dict[str, Value] = {
            word: True for kind, word in _INPUTS.items() if kind in target.inputs
        }
        most = None if target.max_output is None else {"max_tokens": target.max_output}
        generation: dict[str, Value] = {
            "contextWindowSize": target.context,
            "samplingParams": most,
            "modalities": reads or None,
        }
        provider: dict[str, Value] = {
            "id": target.model,
            "name": f"{target.model} (Strowger)",
            "baseUrl": f"{target.url}/v1",
            "envKey": KEY,
            "generationConfig": generation if any(generation.values()) else None,
        }
        settings = set_values(
            {
                ("modelProviders", "openai", _OURS): provider,
                ("security", "auth", "selectedType"): "openai",
                ("model", "name"): target.model,
                ("env", KEY): target.secret or None,
            }
        )
        return (
            SettingsFile(
                path=place.folder(".qwen", "QWEN_HOME") / "settings.json",
                form="json",
                settings=settings,
                holds_secret=bool(target.secret),
            ),
        )

    def notes(self, target: AgentTarget) -> Sequence[str]:
        return ()
