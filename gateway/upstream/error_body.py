"""What an answer with an error status says: its body, as far as one came and can be read.

The status has told already what matters, so nothing that is wrong with the body makes it worse:
a validation error that repeats the whole prompt, one that is cut short or never ends, and one that
is compressed, though we asked for identity, all stay what their status says.
"""

import contextlib
import time
import zlib
from collections.abc import Mapping, Sequence
from email.utils import formatdate

from adapters.error_message import redacted
from gateway.clock import now
from gateway.upstream.transport import Reply
from schemas.errors import GatewayError, UpstreamError

ERROR_BODY_BYTES = 1024 * 1024
"""Of a body, as it is read; the rest is left, and its connection closed."""

PATIENCE_S = 5.0
"""For the rest of the body after the head: nobody waits longer for words."""

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
"""https://docs.python.org/3/library/zlib.html#zlib.decompressobj"""


async def error_body(reply: Reply, by: float) -> bytes:
    """As much of it as comes until `by`, unpacked. Never raises for what the peer does."""
    parts: list[bytes] = []
    size = 0
    by = min(by, now() + PATIENCE_S)
    with contextlib.suppress(UpstreamError):  # what came by then is what it says
        while size < ERROR_BODY_BYTES and (part := await reply.chunk(by)):
            parts.append(part)
            size += len(part)
    body = b"".join(parts)
    coding = reply.headers.get("content-encoding", "").strip().lower()
    return _unpacked(body) if coding not in ("", "identity") else body


def with_date(headers: Mapping[str, str]) -> Mapping[str, str]:
    """With the time of now, from which a date to wait for is measured, where the server has none.

    https://www.rfc-editor.org/rfc/rfc9110#field.date: who receives an answer may add it.
    """
    if "retry-after" not in headers or "date" in headers:
        return headers
    return {**headers, "date": formatdate(time.time(), usegmt=True)}


def hide_addresses(error: GatewayError, addresses: Sequence[str]) -> None:
    """Take the provider's own addresses out of what clients are told; the log keeps them.

    A server repeats them now and then, and proxies in front of it write pages that do.
    """
    told = redacted(error.message, addresses)
    if told != error.message:
        error.message = told


def _unpacked(body: bytes) -> bytes:
    """Of gzip and zlib; b"" for what is neither that nor text, such as br or zstd."""
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, ERROR_BODY_BYTES)
    except zlib.error:
        try:
            body.decode()
        except UnicodeDecodeError:
            return b""
        return body
