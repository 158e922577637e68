"""Read the body of an answer with an error status, as far as it arrives and is readable.

The status already carries the essential information, so a bad body does not change the error:
a validation error that repeats the whole prompt, one that is truncated or never ends, and one that
is compressed although the request asks for identity keep the meaning of their status.
"""

import contextlib
import time
import zlib
from collections.abc import Mapping, Sequence
from email.utils import formatdate

from strowger_gateway.adapters.error_message import redacted
from strowger_gateway.gateway.backends.upstream.transport import Reply
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import GatewayError, UpstreamError

ERROR_BODY_BYTES = 1024 * 1024
"""Maximum bytes read of a body; the rest is not read, and the connection is closed."""

PATIENCE_S = 5.0
"""Maximum seconds to wait for the body after the head."""

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
"""https://docs.python.org/3/library/zlib.html#zlib.decompressobj"""


async def error_body(reply: Reply, by: float) -> bytes:
    """Return what arrives until `by`, decompressed. Never raises for what the peer does."""
    parts: list[bytes] = []
    size = 0
    by = min(by, now() + PATIENCE_S)
    with contextlib.suppress(UpstreamError):  # use what has arrived by then
        while size < ERROR_BODY_BYTES and (part := await reply.chunk(by)):
            parts.append(part)
            size += len(part)
    body = b"".join(parts)
    coding = reply.headers.get("content-encoding", "").strip().lower()
    return _unpacked(body) if coding not in ("", "identity") else body


def with_date(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Add the current time as `date` if `retry-after` needs it and the server sends none.

    A `retry-after` that is a date is measured from it. The recipient of an answer may add it:
    https://www.rfc-editor.org/rfc/rfc9110#field.date
    """
    if "retry-after" not in headers or "date" in headers:
        return headers
    return {**headers, "date": formatdate(time.time(), usegmt=True)}


def hide_addresses(error: GatewayError, addresses: Sequence[str]) -> None:
    """Remove the provider's own addresses from the client's message; the log keeps them.

    Some servers repeat them, and so do error pages of proxies in front of a server.
    """
    message = redacted(error.message, addresses)
    if message != error.message:
        error.message = message


def _unpacked(body: bytes) -> bytes:
    """Decompress gzip and zlib; return b"" for other encodings that are not text (br, zstd)."""
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, ERROR_BODY_BYTES)
    except zlib.error:
        try:
            body.decode()
        except UnicodeDecodeError:
            return b""
        return body
