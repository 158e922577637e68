"""The parts of the gateway, listed once. A part may use the sides of those before it."""

from typing import Final

from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.server.tls.part import ListenerTlsPart

PARTS: Final[tuple[Part, ...]] = (ListenerTlsPart(),)
