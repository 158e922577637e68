"""What most surfaces have in common: bodies of JSON, streams of events, statuses as they are."""

from typing import Final

from strowger_gateway.gateway.surfaces.base import EVENT_STREAM, JSON, Inbound, PlainRenderer
from strowger_gateway.gateway.surfaces.sse import COMMIT_S, KEEP_ALIVE, frame
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.requests import Request

UNTOLD_TYPES: Final = (b"application/x-www-form-urlencoded", b"text/plain")
"""The types that `curl -d` and `fetch` add by themselves to a body of JSON.

A web page may send them to other sites without asking; CrossSiteGuard rejects such requests."""


class JsonSurface:
    """The usual values of `strowger_gateway.gateway.surfaces.base.Surface`; a surface overrides
    what differs.

    error_event: the line before the data of an error in a stream; b"" for none.
    """

    accepts: tuple[bytes, ...] = UNTOLD_TYPES
    keep_alive = KEEP_ALIVE
    commit_after_s = COMMIT_S
    comments = True
    media_type = JSON
    stream_media_type = EVENT_STREAM
    error_event = b""
    request_id_header = b""
    plain: PlainRenderer | None = None
    late = False

    def status_of(self, exc: GatewayError) -> int:
        return exc.status

    def error(self, exc: GatewayError) -> bytes:
        raise NotImplementedError

    def error_about(self, exc: GatewayError, request: Request | None) -> bytes:
        return self.error(exc)

    def json_length(self, inbound: Inbound) -> int:
        return len(inbound.body)

    def counted(self, tokens: int) -> bytes:
        return b'{"input_tokens":%d}' % tokens

    def last_frame(self, body: bytes) -> bytes:
        return self.error_event + frame(body)
