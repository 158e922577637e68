"""What translates requests for moderation and answers, imported with the first request."""

from strowger_gateway.gateway.surfaces.moderation.parse import (
    parse_chat_moderation,
    parse_moderation,
)
from strowger_gateway.gateway.surfaces.moderation.render import ModerationRenderer
from strowger_gateway.gateway.surfaces.moderation.wire import ChatModerationWire, ModerationWire

__all__ = (
    "ChatModerationWire",
    "ModerationRenderer",
    "ModerationWire",
    "parse_chat_moderation",
    "parse_moderation",
)
