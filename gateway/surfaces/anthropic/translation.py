"""What translates Anthropic's Messages, imported with the first request."""

from strowger_gateway.gateway.surfaces.anthropic.parse import parse_messages
from strowger_gateway.gateway.surfaces.anthropic.plain_message import plain_message
from strowger_gateway.gateway.surfaces.anthropic.render import MessagesRenderer
from strowger_gateway.gateway.surfaces.anthropic.wire import MessagesWire

__all__ = (
    "MessagesRenderer",
    "MessagesWire",
    "parse_messages",
    "plain_message",
)
