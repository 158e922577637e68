"""A connection's requests mean the same whether the gateway has seen their head before or not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.server.http1.request_parser import BadRequest, RequestParser
from tests.examples import examples
from tests.gateway.server.http1.front import Front, post

pytestmark = pytest.mark.anyio

Seen = tuple[object, ...]


class Reader:
    """What a parser reads: each head, the bytes of its body, and whether it was completed."""

    def __init__(self) -> None:
        self.parser = RequestParser(self)
        self.requests: list[list[object]] = []
        self.refused: tuple[int, str] | None = None

    def feed(self, data: bytes) -> None:
        if self.refused is not None:
            return
        try:
            self.parser.feed(data)
        except BadRequest as exc:
            self.refused = (exc.status, exc.why)

    def on_head(self) -> None:
        parser = self.parser
        self.requests.append(
            [
                parser.method,
                parser.target,
                parser.version,
                list(parser.headers),
                dict(parser.fields),
                parser.length,
                parser.expects_continue,
                parser.keep_alive,
                b"",
                False,
            ]
        )
        parser.headers.clear()  # a handler's own list: nobody else may see what it does to it
        parser.fields.clear()

    def on_body(self, body: bytes) -> None:
        before = self.requests[-1][-2]
        assert isinstance(before, bytes)
        self.requests[-1][-2] = before + body

    def on_message_complete(self) -> None:
        self.requests[-1][-1] = True


LINES = st.sampled_from(
    [
        b"Content-Length: %d",
        b"content-length: %d",
        b"content-length:%d",
        b"CONTENT-LENGTH: %d",
        b"content-length:  %d",
        b"content-length: %d ",
        b"content-length: 0%d",
        b"content-length: +%d",
        b"content-length: %d, %d",
        b"x-content-length: %d",
        b"x-content-length: %d\r\ncontent-length: %d",
        b"content-length: %d\r\nx-content-length: %d",
        b"content-length: %d\r\ncontent-length: %d",
        b"transfer-encoding: chunked",
        b"content-length: %d\r\ntransfer-encoding: chunked",
        b"",
    ]
)
OTHERS = st.lists(
    st.sampled_from(
        [
            b"authorization: Bearer k",
            b"authorization: Bearer other",
            b"x-request-id: one",
            b"connection: close",
            b"connection: keep-alive",
            b"expect: 100-continue",
            b"upgrade: h2c\r\nconnection: upgrade",
            b"x: content-length: 5",
            b"x-empty:",
            b"host: two",
        ]
    ),
    max_size=2,
    unique=True,
)
FIRST = st.sampled_from(
    [
        b"POST /v1/chat/completions HTTP/1.1",
        b"POST /v1/embeddings HTTP/1.1",
        b"POST http://one/v1/embeddings HTTP/1.1",
        b"POST /v1/embeddings HTTP/1.0",
        b"\r\nPOST /v1/embeddings HTTP/1.1",
        b"GET /healthz HTTP/1.1",
        b"NONSENSE",
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request, mostly well formed; its head is often the one before it but for the length."""
    body = b"x" * draw(st.sampled_from([0, 1, 5, 5, 12, 130]))
    line = draw(LINES)
    line = line.replace(b"%d", str(len(body)).encode())
    if b"chunked" in line:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    others = draw(OTHERS)
    lines = [draw(FIRST), b"host: one", *others]
    if line:
        lines.insert(draw(st.sampled_from([len(lines), 2])), line)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """The pieces in which the bytes of a connection arrive."""
    kinds = draw(st.lists(requests(), min_size=1, max_size=3))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=8))
    if draw(st.booleans()):  # each request by itself, in one or two pieces
        pieces: list[bytes] = []
        for one in chosen:
            head, empty, body = one.partition(b"\r\n\r\n")
            pieces += [head + empty, body] if draw(st.booleans()) else [one]
        return [piece for piece in pieces if piece]
    whole = b"".join(chosen)
    cuts = sorted(draw(st.sets(st.integers(0, len(whole)), max_size=6)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]


@settings(max_examples=examples(60), deadline=None)
@given(conversations())
def test_requests_are_read_as_by_a_parser_that_remembers_nothing(pieces: list[bytes]) -> None:
    remembers, forgets = Reader(), Reader()

    for piece in pieces:
        remembers.feed(piece)
    for piece in pieces:
        # No head arrives in one piece, so none is remembered.
        for byte in piece:
            forgets.feed(bytes([byte]))

    assert remembers.requests == forgets.requests
    assert refused(remembers) == refused(forgets)


def test_a_head_that_begins_behind_another_request_is_not_recognised_by_its_rest() -> None:
    remembers = Reader()
    rest = b"HTTP/1.1\r\nhost: one\r\ncontent-length: 1\r\n\r\nx"
    pieces = [
        b"POST /a " + rest + b"POST /b ",
        rest + b"POST /c ",
        rest + b"POST /d HTTP/1.1\r\nhost: one\r\n\r\n",
    ]

    for piece in pieces:
        remembers.feed(piece)

    assert [request[1] for request in remembers.requests] == [b"/a", b"/b", b"/c", b"/d"]


@pytest.mark.parametrize("begun", [b"P", b"POST /v1/embeddings ", b"POST / HTTP/1.1\r\nhost: o"])
def test_a_head_that_begins_behind_another_request_has_started(begun: bytes) -> None:
    reader = Reader()

    reader.feed(b"POST /a HTTP/1.1\r\nhost: one\r\ncontent-length: 1\r\n\r\nx" + begun)

    assert reader.parser.head_started


UNKNOWN = (501, "The method is unknown.")


def refused(reader: Reader) -> object:
    """Why it refused; an unknown method is named only if its line arrives in one piece."""
    return (400, "Invalid HTTP request received.") if reader.refused == UNKNOWN else reader.refused


def test_a_head_that_comes_again_is_recognised_with_a_body_of_another_length() -> None:
    reader = Reader()
    head = b"POST /v1/embeddings HTTP/1.1\r\nhost: one\r\ncontent-length: %d\r\nx: y\r\n\r\n%b"

    for body in (b"a", b"bcd" * 40, b""):
        reader.feed(head % (len(body), body))

    assert [request[-2:] for request in reader.requests] == [
        [b"a", True],
        [b"bcd" * 40, True],
        [b"", True],
    ]


@pytest.mark.parametrize("apart", [False, True], ids=["one write", "two writes"])
async def test_each_request_of_a_connection_is_answered_from_its_own_body(
    front: Front, apart: bool
) -> None:
    wire = await front.dial()

    for number in (1, 22, 333, 4, 50_000, 6):
        body = b'{"model":"chat","messages":[{"role":"user","content":"%b"}]}' % (b"x" * number)
        head, empty, rest = post(body).partition(b"\r\n\r\n")
        await wire.send(*([head + empty, rest] if apart else [head + empty + rest]))
        assert (await wire.reply()).status == 200
        sent = front.remote.requests[-1].json["messages"]
        assert sent == [{"role": "user", "content": "x" * number}]


async def test_pipelined_requests_with_a_known_head_are_answered_in_order(front: Front) -> None:
    wire = await front.dial()
    bodies = [b'{"model":"chat","messages":[{"role":"user","content":"%d"}]}' % n for n in range(9)]

    await wire.send(post(bodies[0]))
    await wire.reply()
    await wire.send(b"".join(post(body) for body in bodies[1:5]) + post(b"{}") + post(bodies[5]))

    statuses = [(await wire.reply()).status for _ in range(6)]
    assert statuses == [200, 200, 200, 200, 400, 200]


async def test_a_client_that_leaves_within_a_body_behind_a_known_head_holds_nothing(
    front: Front,
) -> None:
    wire = await front.dial()
    await wire.send(post())
    await wire.reply()
    body = b'{"model":"chat","messages":[{"role":"user","content":"%b"}]}' % (b"x" * 40_000)

    await wire.send(post(body)[:-20_000])
    wire.close()

    await front.until_idle()


async def test_after_the_last_request_of_a_connection_a_known_head_is_read_past(
    front: Front,
) -> None:
    wire = await front.dial()
    await wire.send(post())
    await wire.reply()

    await wire.send(post(fields="connection: close\r\n") + post())

    assert (await wire.reply())["connection"] == "close"
    assert await wire.ended()
