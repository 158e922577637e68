"""Error bodies are read as far as possible; no fault in them hides the status."""

import gzip
import zlib
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest

from strowger_gateway.gateway.backends.upstream import error_body as failures
from strowger_gateway.gateway.backends.upstream.error_body import (
    ERROR_BODY_BYTES,
    error_body,
    with_date,
)
from tests.gateway.backends.upstream.wire.exchanging import Open, post, soon
from tests.stand_ins.doubles import Step, answering, raw_server, sized

pytestmark = pytest.mark.anyio

WORDS = b'{"error": {"message": "the prompt is too long"}}'
GZIP = "content-encoding: gzip"
HEAD = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 99\r\n\r\n"
BODIES: dict[str, tuple[list[Step], bytes]] = {
    "closed in the middle": ([HEAD + WORDS, "close"], WORDS),
    "reset before it began": ([HEAD, 0.02, "reset"], b""),
    "without end": ([HEAD + WORDS[:9]], WORDS[:9]),
    "gzip": ([sized(gzip.compress(WORDS), "400 Bad", GZIP)], WORDS),
    "zlib": ([sized(zlib.compress(WORDS), "400 Bad", "content-encoding: deflate")], WORDS),
    "said to be gzip": ([sized(WORDS, "400 Bad", GZIP)], WORDS),
    "brotli": ([sized(b"\x8b\x02\x80ab\x03", "400 Bad", "content-encoding: br")], b""),
    "nothing": ([sized(b"", "500 Internal Server Error")], b""),
}


@pytest.mark.parametrize("name", BODIES)
async def test_an_incomplete_error_body_gives_what_arrived(name: str, open_transport: Open) -> None:
    steps, expected = BODIES[name]
    async with raw_server(answering([*steps, 1.0])) as server:
        reply = await post(open_transport(server.base_url))

        body = await error_body(reply, soon(0.2))
        await reply.aclose()

        assert body == expected
        assert reply.status >= 400


async def test_a_truncated_gzip_body_gives_what_can_be_unpacked(open_transport: Open) -> None:
    packed = gzip.compress(WORDS)[:-12]
    async with raw_server(answering(sized(packed, "400 Bad", GZIP))) as server:
        reply = await post(open_transport(server.base_url))

        body = await error_body(reply, soon())
        await reply.aclose()

        assert body
        assert WORDS.startswith(body)


async def test_of_a_body_without_bounds_the_beginning_is_enough(open_transport: Open) -> None:
    bomb = gzip.compress(b"x" * 50 * ERROR_BODY_BYTES)
    plain = b"x" * 3 * ERROR_BODY_BYTES
    for packed, field in ((bomb, GZIP), (plain, "x-a: 1")):
        async with raw_server(answering(sized(packed, "400 Bad", field))) as server:
            reply = await post(open_transport(server.base_url))

            body = await error_body(reply, soon())
            await reply.aclose()

            assert ERROR_BODY_BYTES <= len(body) < 2 * ERROR_BODY_BYTES


async def test_no_request_waits_long_for_an_error_message(
    open_transport: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PATIENCE_S", 0.05)
    async with raw_server(answering([HEAD + b"{", 1.0])) as server:
        reply = await post(open_transport(server.base_url))
        before = soon(0)

        body = await error_body(reply, soon(600))
        await reply.aclose()

        assert body == b"{"
        assert soon(0) - before < 1


def test_a_date_to_wait_for_is_measured_from_now_if_the_server_sends_no_time() -> None:
    until = {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}

    added = parsedate_to_datetime(with_date(until)["date"])

    assert abs((datetime.now(UTC) - added).total_seconds()) < 60
    assert with_date({**until, "date": "its own"})["date"] == "its own"
    assert "date" not in with_date({"content-type": "text/plain"})
