"""The built-in hooks by the name that `guardrails[].use` gives."""

from collections.abc import Mapping
from typing import Final

from gateway.guardrails.patterns import pattern_hook
from gateway.guardrails.secrets import secret_hook
from gateway.guardrails.sizes import size_hook
from gateway.hooks.contract import HookFactory

FACTORIES: Final[Mapping[str, HookFactory]] = {
    "patterns": pattern_hook,
    "secrets": secret_hook,
    "sizes": size_hook,
}
