"""Continue: its command line and its extensions. https://docs.continue.dev/reference"""

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
    defaults,
    set_values,
)

_OURS: Final = ListItem("name", "Strowger")


class Continue:
    """See Tool."""

    name = "continue"
    title = "Continue"
    program = "cn"
    dialect: Dialect = "chat"
    key_variable = KEY
    ca_variable = "NODE_EXTRA_CA_CERTS"
    overriding = ()
    project = False
    url_at = At(path=("models", _OURS, "apiBase"), after="/v1")
    model_at = At(path=("models", _OURS, "model"))
    key_at = At(path=("models", _OURS, "apiKey"))

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        limits: dict[str, Value] = {
            "contextLength": target.context,
            "maxTokens": target.max_output,
        }
        reads: list[Value] = ["image_input"] if "image" in target.inputs else []
        model: dict[str, Value] = {
            "name": _OURS.value,
            "provider": "openai",
            "model": target.model,
            "apiBase": f"{target.url}/v1",
            "apiKey": target.secret or f"${{{{ secrets.{KEY} }}}}",
            "roles": ["chat", "edit", "apply"],
            "capabilities": ["tool_use", *reads],
            "defaultCompletionOptions": limits if any(limits.values()) else None,
        }
        head = defaults({"name": "Strowger", "version": "1.0.0", "schema": "v1"})
        settings = (*head, *set_values({("models", _OURS): model}))
        return (
            SettingsFile(
                path=place.folder(".continue", "CONTINUE_GLOBAL_DIR") / "config.yaml",
                form="yaml",
                settings=settings,
                holds_secret=bool(target.secret),
            ),
        )

    def notes(self, target: AgentTarget) -> Sequence[str]:
        if target.secret:
            return ()
        return (
            f"its extensions do not see the shell: for them, put {KEY}=KEY into ~/.continue/.env",
        )
