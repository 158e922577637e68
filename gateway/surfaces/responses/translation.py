"""What translates the Responses API, imported with the first request."""

from strowger_gateway.gateway.surfaces.responses.parse import parse_response
from strowger_gateway.gateway.surfaces.responses.plain_response import plain_response
from strowger_gateway.gateway.surfaces.responses.render import ResponsesRenderer
from strowger_gateway.gateway.surfaces.responses.window_answer import WindowRenderer
from strowger_gateway.gateway.surfaces.responses.wire import ResponsesWire

__all__ = (
    "ResponsesRenderer",
    "ResponsesWire",
    "WindowRenderer",
    "parse_response",
    "plain_response",
)
