"""opencode, and Kilo Code, whose command line is made from it.

https://opencode.ai/docs/providers#custom-provider, https://kilo.ai/docs/cli

Both use the Messages API here, because it carries the signatures of reasoning from call to call.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strowger_gateway.gateway.cli.agents.documents.document import Value
from strowger_gateway.gateway.cli.agents.tools.tool import (
    KEY,
    AgentTarget,
    At,
    Dialect,
    SettingsFile,
    SettingsPlace,
    defaults,
    existing,
    set_values,
)

PROVIDER: Final = "strowger"
OUTPUT: Final = 32_000
"""Tokens of an answer that opencode asks of a model whose limit it does not know. Its setting needs
both limits."""

MILLION: Final = 10**6
"""Its prices are per so many tokens."""

_INPUTS: Final = {"image": "image", "audio": "audio", "video": "video", "file": "pdf"}
"""The gateway's words for what a model reads, and opencode's."""


class Opencode:
    """See Tool."""

    name = "opencode"
    title = "opencode"
    program = "opencode"
    dialect: Dialect = "messages"
    key_variable = KEY
    ca_variable = "NODE_EXTRA_CA_CERTS"
    overriding: Sequence[str] = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT")
    project = True
    url_at = At(path=("provider", PROVIDER, "options", "baseURL"), after="/v1")
    model_at = At(path=("model",), before=f"{PROVIDER}/")
    key_at = At(path=("provider", PROVIDER, "options", "apiKey"))
    schema = "https://opencode.ai/config.json"

    def file(self, place: SettingsPlace) -> Path:
        return existing(place.config("opencode"), "opencode.jsonc", "opencode.json")

    def files(self, target: AgentTarget, place: SettingsPlace) -> tuple[SettingsFile, ...]:
        provider: dict[str, Value] = {
            "npm": "@ai-sdk/anthropic",
            "name": "Strowger",
            "options": {
                "baseURL": f"{target.url}/v1",
                "apiKey": target.secret or f"{{env:{KEY}}}",
            },
            "models": {target.model: _described(target)},
        }
        settings = set_values(
            {
                ("provider", PROVIDER): provider,
                "model": f"{PROVIDER}/{target.model}",
                "small_model": f"{PROVIDER}/{target.model}",
            }
        )
        return (
            SettingsFile(
                path=self.file(place),
                form="json",
                settings=(*defaults({"$schema": self.schema}), *settings),
                holds_secret=bool(target.secret),
            ),
        )

    def notes(self, target: AgentTarget) -> Sequence[str]:
        return ()


class KiloCode(Opencode):
    """See Tool."""

    name = "kilo-code"
    title = "Kilo Code"
    program = "kilo"
    overriding: Sequence[str] = ("KILO_CONFIG", "KILO_CONFIG_CONTENT")
    schema = "https://app.kilo.ai/config.json"

    def file(self, place: SettingsPlace) -> Path:
        return existing(place.config("kilo"), "kilo.jsonc", "kilo.json")


def _described(target: AgentTarget) -> Value:
    reads = [word for kind, word in _INPUTS.items() if kind in target.inputs]
    facts = ("modalities", "attachment", "limit", "cost")
    described: dict[str, Value] = {"name": target.model, **dict.fromkeys(facts)}
    if reads:
        described["modalities"] = {"input": ["text", *reads], "output": ["text"]}
        described["attachment"] = True
    if target.context is not None:
        most = target.max_output or min(OUTPUT, target.context // 4)
        described["limit"] = {"context": target.context, "output": most}
    if (price := target.price) is not None:
        cost = {
            "input": price.input,
            "output": price.output,
            "cache_read": price.cache_read,
            "cache_write": price.cache_write,
        }
        described["cost"] = {
            name: round(usd * MILLION, 6) for name, usd in cost.items() if usd is not None
        }
    return described
