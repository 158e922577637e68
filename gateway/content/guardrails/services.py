"""The hooks that ask a service, by the name that `guardrails[].use` gives."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.content.guardrails.judge import judge_hook
from strowger_gateway.gateway.content.guardrails.moderation import moderation_hook
from strowger_gateway.gateway.content.guardrails.presidio import presidio_hook
from strowger_gateway.gateway.content.hooks.contract import HookFactory

FACTORIES: Final[Mapping[str, HookFactory]] = {
    "judge": judge_hook,
    "moderation": moderation_hook,
    "presidio": presidio_hook,
}
