"""Validate outgoing requests, so that none can smuggle a second one onto the connection."""

import re

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest

RESERVED = frozenset(
    {"host", "content-length", "accept-encoding", "transfer-encoding", "connection", "te"}
)
"""Headers that a transport sets itself, or never sends."""

# https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2 and 5.5; obs-text as Latin-1
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"/[\x21-\x7e]*")


def check(outbound: Outbound) -> None:
    """Raises InvalidRequest for a target, GatewayError for a header, that cannot be sent.

    Values are never repeated: they may be credentials.
    """
    if not _TARGET.fullmatch(outbound.target) or "#" in outbound.target:
        raise InvalidRequest(
            "the model's name cannot be part of a URL: it contains spaces or control characters",
            param="model",
        )
    if not _TOKEN.fullmatch(outbound.method):
        raise GatewayError(f"{outbound.method!r} is not an HTTP method")
    for name, value in outbound.headers:
        if not _TOKEN.fullmatch(name):
            raise GatewayError(f"{name!r} is not a header name")
        if name.lower() in RESERVED:
            raise GatewayError(f"header {name!r} is set by the transport")
        if not _VALUE.fullmatch(value):
            raise GatewayError(f"header {name!r} contains characters that cannot be sent")
