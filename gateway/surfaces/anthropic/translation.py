"""What translates Anthropic's Messages, imported with the first request."""

from gateway.surfaces.anthropic.parse import parse_messages
from gateway.surfaces.anthropic.plain_message import plain_message
from gateway.surfaces.anthropic.render import MessagesRenderer
from gateway.surfaces.anthropic.wire import MessagesWire

__all__ = (
    "MessagesRenderer",
    "MessagesWire",
    "parse_messages",
    "plain_message",
)
