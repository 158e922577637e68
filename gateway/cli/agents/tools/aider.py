"""aider. https://aider.chat/docs/config/aider_conf.html

It knows models by LiteLLM's names, and their limits from a file of metadata.
"""

from collections.abc import Sequence

from strowger_gateway.gateway.cli.agents.documents.document import Value
from strowger_gateway.gateway.cli.agents.tools.tool import (
    AgentTarget,
    At,
    Dialect,
    SettingsFile,
    SettingsPlace,
    known,
    set_values,
)


class Aider:
    """See Tool."""

    name = "aider"
    title = "aider"
    program = "aider"
    dialect: Dialect = "chat"
    key_variable = "AIDER_OPENAI_API_KEY"
    ca_variable = "SSL_CERT_FILE"
    overriding = ("AIDER_MODEL", "AIDER_WEAK_MODEL", "AIDER_OPENAI_API_BASE", "OPENAI_API_BASE")
    project = True
    url_at = At(path=("openai-api-base",), after="/v1")
    model_at = At(path=("model",), before="openai/")
    key_at = At(path=("openai-api-key",))

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        folder = place.project or place.home
        metadata = folder / ".aider.strowger.json"
        name, price = f"openai/{target.model}", target.price
        limits = known(
            {
                "max_tokens": target.max_output,
                "max_input_tokens": target.context,
                "max_output_tokens": target.max_output,
                "input_cost_per_token": None if price is None else price.input,
                "output_cost_per_token": None if price is None else price.output,
            }
        )
        described: dict[str, Value] = {
            **limits,
            "litellm_provider": "openai",
            "mode": "chat",
            "supports_vision": "image" in target.inputs,
        }
        settings = set_values(
            {
                "model": name,
                "weak-model": name,
                "openai-api-base": f"{target.url}/v1",
                "openai-api-key": target.secret or None,
                "model-metadata-file": str(metadata),
                "show-model-warnings": False,
            }
        )
        return (
            SettingsFile(
                path=folder / ".aider.conf.yml",
                form="yaml",
                settings=settings,
                holds_secret=bool(target.secret),
            ),
            SettingsFile(
                path=metadata, form="json", settings=set_values({(name,): described}), whole=True
            ),
        )

    def notes(self, target: AgentTarget) -> Sequence[str]:
        return ()
