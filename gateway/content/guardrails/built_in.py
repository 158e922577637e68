"""The built-in hooks by the name that `guardrails[].use` gives."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.content.guardrails.patterns import pattern_hook
from strowger_gateway.gateway.content.guardrails.secrets import secret_hook
from strowger_gateway.gateway.content.guardrails.sizes import size_hook
from strowger_gateway.gateway.content.hooks.contract import HookFactory

FACTORIES: Final[Mapping[str, HookFactory]] = {
    "patterns": pattern_hook,
    "secrets": secret_hook,
    "sizes": size_hook,
}
