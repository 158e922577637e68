"""Bodies: by length and in chunks, cut anywhere; and what nothing may follow."""

import json
import logging

import pytest

from tests.gateway.server.http1.front import (
    BODIES,
    BODY,
    CHAT,
    HOT,
    INDEX,
    READY,
    Front,
    get,
    in_chunks,
    post,
)
from tests.gateway.server.http1.wire import PROBE, chunked, cut

pytestmark = pytest.mark.anyio

PATHS = pytest.mark.parametrize("path", BODIES)
CUTS = {
    "in one write": (),
    "the body apart": (-15,),
    "the head's last line end apart": (-17,),
    "in the middle of the request line": (9,),
    "in the middle of a line end": (-16, -14),
    "in many pieces": tuple(range(1, 100, 7)),
    "byte by byte": tuple(range(1, 140)),
}


@PATHS
@pytest.mark.parametrize("how", CUTS)
async def test_a_request_is_read_however_it_is_cut(front: Front, path: str, how: str) -> None:
    request = post(BODIES[path], path=path)
    size = len(BODIES[path]) - len(READY)
    at = [one if one > 0 else len(request) + one - size for one in CUTS[how]]

    assert await front.outcome(*cut(request, *at)) == (200, True)
    assert [one.json["messages"] for one in front.remote.requests] == (
        [CHAT["messages"]] if path == HOT else []
    )


def coded(body: bytes) -> dict[str, bytes]:
    """One body in chunks in many ways."""
    size = b"%x" % len(body)
    return {
        "one chunk": chunked(body),
        "three chunks": chunked(body[:4], body[4:5], body[5:]),
        "a chunk per byte": chunked(*(bytes([one]) for one in body)),
        "large letters": b"%X\r\n%b\r\n0\r\n\r\n" % (len(body), body),
        "zeros before a size": b"000%b\r\n%b\r\n000\r\n\r\n" % (size, body),
        "an extension": b"%b;name=value\r\n%b\r\n0\r\n\r\n" % (size, body),
        "an extension without a value": b"%b;name\r\n%b\r\n0\r\n\r\n" % (size, body),
        "a quoted extension": b'%b;name="a b\\"c"\r\n%b\r\n0\r\n\r\n' % (size, body),
        "an extension of the last chunk": b"%b\r\n%b\r\n0;last=1\r\n\r\n" % (size, body),
        "trailers": chunked(body, trailers=b"x-checksum: 1\r\nx-more: 2\r\n"),
        "a trailer that is called host": chunked(body, trailers=b"host: elsewhere\r\n"),
        "a trailer that says close": chunked(body, trailers=b"connection: close\r\n"),
        "a trailer that expects": chunked(body, trailers=b"expect: 100-continue\r\n"),
        "trailers that offer": chunked(body, trailers=b"connection: upgrade\r\nupgrade: h2c\r\n"),
    }


@PATHS
@pytest.mark.parametrize("apart", [False, True], ids=["in one write", "byte by byte"])
@pytest.mark.parametrize("how", coded(b""))
async def test_chunks_are_joined(front: Front, path: str, how: str, apart: bool) -> None:
    request = in_chunks(coded(BODIES[path])[how], path=path)
    pieces = cut(request, *range(1, len(request))) if apart else [request]

    assert await front.outcome(*pieces) == (200, True)
    assert [one.json["messages"] for one in front.remote.requests] == (
        [CHAT["messages"]] if path == HOT else []
    )


async def test_chunks_are_joined_wherever_two_packets_meet(front: Front) -> None:
    request = in_chunks(
        b'6;a="b"\r\n{"read\r\n9\r\ny": true}\r\n0;c\r\nx: y\r\n\r\n', "x-request-id: me\r\n", INDEX
    )
    wire = await front.dial()
    found: list[tuple[int, str]] = []

    for at in range(1, len(request)):
        await wire.send(*cut(request, at))
        reply = await wire.reply()
        found.append((reply.status, reply["x-request-id"]))

    assert set(found) == {(200, "me")}


async def test_a_coding_is_known_in_any_letters(front: Front) -> None:
    request = post(b"", "Transfer-Encoding: Chunked\r\n", length=False) + chunked(BODY)

    assert await front.outcome(request) == (200, True)


async def test_a_long_body_arrives_whole_in_chunks_of_all_sizes(front: Front) -> None:
    text = "".join(chr(33 + one * 7 % 90) for one in range(90_000))
    body = json.dumps({**CHAT, "messages": [{"role": "user", "content": text}]}).encode()
    places = [one * (one + 1) // 2 for one in range(1, 400)]

    status = await front.outcome(in_chunks(chunked(*cut(body, *places))))

    assert status == (200, True)
    assert front.remote.requests[0].json["messages"] == [{"role": "user", "content": text}]


WITHOUT_A_BODY = {
    "GET without a length": (get(), 200),
    "GET with length 0": (get(fields="content-length: 0\r\n"), 200),
    "GET with no chunks": (get(fields="transfer-encoding: chunked\r\n") + chunked(), 200),
    "POST with length 0": (post(b""), 400),
    "POST without a length": (post(b"", length=False), 400),
    "POST with no chunks": (in_chunks(chunked()), 400),
    "POST to Litestar with length 0": (post(b"", path=INDEX), 200),
    "POST to Litestar without a length": (post(b"", path=INDEX, length=False), 200),
}


@pytest.mark.parametrize("how", WITHOUT_A_BODY)
async def test_a_request_may_have_no_body(front: Front, how: str) -> None:
    request, status = WITHOUT_A_BODY[how]

    assert await front.outcome(request) == (status, True)


READ_PAST = {
    "of a GET": get(fields=f"content-length: {len(PROBE)}\r\n") + PROBE,
    "of a GET, in chunks": get(fields="transfer-encoding: chunked\r\n") + chunked(PROBE),
    "of a HEAD": get(fields=f"content-length: {len(PROBE)}\r\n", method="HEAD") + PROBE,
    "of a method that is not allowed": post(PROBE).replace(b"POST", b"PUT", 1),
    "of a type that is not accepted": post(PROBE).replace(b"application/json", b"application/xml"),
    "to an unknown path": post(PROBE, path="/nowhere"),
    "that is not JSON": post(PROBE),
    "that is not JSON, to Litestar": post(PROBE, path=INDEX),
}


@pytest.mark.parametrize("apart", [False, True], ids=["in one write", "the body apart"])
@pytest.mark.parametrize("what", READ_PAST)
async def test_a_body_is_never_taken_as_the_next_request(
    front: Front, what: str, apart: bool
) -> None:
    wire = await front.dial()
    request = READ_PAST[what]
    head = request.index(b"\r\n\r\n") + 4

    await wire.send(*(cut(request, head) if apart else [request]), get("/nowhere"))
    first = await wire.reply("HEAD" if "HEAD" in what else "GET")
    second = await wire.reply()

    assert b'"alive"' not in first.body + second.body
    assert second.status == 404
    assert await wire.kept()


def lengths(value: str) -> str:
    return f"content-length: {value}\r\n"


def codings(value: str) -> str:
    return f"transfer-encoding: {value}\r\n"


FRAMED_WRONGLY = {
    "a length and chunks": lengths("5") + codings("chunked"),
    "chunks and a length": codings("chunked") + lengths("5"),
    "two lengths that differ": lengths("30") + lengths("5"),
    "two lengths in one line": lengths("30, 5"),
    "a negative length": lengths("-1"),
    "a length with a sign": lengths("+5"),
    "a hexadecimal length": lengths("0x5"),
    "a length with a fraction": lengths("1.5"),
    "a length in letters": lengths("abc"),
    "a length with a blank in it": lengths("1 0"),
    "an empty length": lengths(""),
    "a length of thirty digits": lengths("9" * 30),
    "a length beyond 64 bits": lengths(str(1 << 64)),
    "a coding without chunks": codings("gzip"),
    "chunks that are not the last coding": codings("chunked, gzip"),
    "a coding like chunked": codings("xchunked"),
    "a coding that begins like chunked": codings("chunkedx"),
    "chunked twice": codings("chunked, chunked"),
    "chunked in two lines": codings("chunked") + codings("chunked"),
    "chunked in quotes": codings('"chunked"'),
    "chunked behind a control character": codings("\x0bchunked"),
    "chunked with a parameter": codings("chunked;q=1"),
    "an empty coding": codings(""),
}


@PATHS
@pytest.mark.parametrize("how", FRAMED_WRONGLY)
async def test_a_body_whose_end_is_uncertain_is_refused_with_all_that_follows(
    front: Front, path: str, how: str
) -> None:
    """Or a proxy in front and this gateway could see different requests in the same bytes."""
    head = post(b"", FRAMED_WRONGLY[how], path, length=False)

    assert await front.outcome(head + chunked(BODIES[path]) + PROBE) == (400, False)
    assert not front.remote.requests


UNKNOWN_CODINGS = {
    "gzip in chunks": codings("gzip, chunked"),
    "gzip in chunks without a blank": codings("gzip,chunked"),
    "gzip in chunks in two lines": codings("gzip") + codings("chunked"),
    "gzip in chunks in capitals": codings("GZIP, CHUNKED"),
    "chunks that do nothing in chunks": codings("identity, chunked"),
    "a coding with a parameter in chunks": codings("foo;q=1, chunked"),
}


@PATHS
@pytest.mark.parametrize("how", UNKNOWN_CODINGS)
async def test_a_body_in_another_coding_than_chunks_is_not_implemented(
    front: Front, path: str, how: str
) -> None:
    head = post(b"", UNKNOWN_CODINGS[how], path, length=False)

    assert await front.outcome(head + chunked(BODIES[path]) + PROBE) == (501, False)
    assert await front.outcome(head) == (501, False)
    assert not front.remote.requests


CHUNKED_WRONGLY = {
    "a size in letters": b"ZZ\r\n",
    "no size": b"\r\n",
    "a negative size": b"-1\r\n",
    "a size with a sign": b"+5\r\n",
    "a size with a prefix": b"0x5\r\n",
    "a blank before a size": b" 5\r\n",
    "a size with an underscore": b"5_0\r\n",
    "a size beyond 64 bits": b"f" * 17 + b"\r\n",
    "a size with a line feed alone": b"5\n",
    "a control character in an extension": b"5;a=\x01\r\n",
    "more data than its size": b"2\r\n{}}\r\n",
    "data without a line end": b"2\r\n{}5\r\n",
    "data with a line feed alone": b"2\r\n{}\n",
    "a trailer with a blank in its name": b"2\r\n{}\r\n0\r\nx y: z\r\n\r\n",
    "a trailer without a colon": b"2\r\n{}\r\n0\r\nxyz\r\n\r\n",
}


@PATHS
@pytest.mark.parametrize("apart", [False, True], ids=["in one write", "the chunks apart"])
@pytest.mark.parametrize("how", CHUNKED_WRONGLY)
async def test_chunks_that_are_wrong_are_refused_with_all_that_follows(
    front: Front, path: str, how: str, apart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    request = in_chunks(CHUNKED_WRONGLY[how] + b"hello\r\n0\r\n\r\n" + PROBE, path=path)
    head = request.index(b"\r\n\r\n") + 4

    with caplog.at_level(logging.WARNING):
        outcome = await front.outcome(*(cut(request, head) if apart else [request]))

    assert outcome == (400, False)
    assert not front.remote.requests
    assert not caplog.records
    assert front.idle
