"""Heads: header lines, request lines, methods and targets, in what may be sent and what may not."""

import pytest

from tests.gateway.server.http1.front import BODIES, BODY, HOT, INDEX, READY, Front, get, post
from tests.gateway.server.http1.wire import PROBE, cut

pytestmark = pytest.mark.anyio

MODELS = "GET /v1/models HTTP/1.1"
PATHS = pytest.mark.parametrize("path", BODIES)


def head(first: str | bytes, *lines: str | bytes) -> bytes:
    """A head of these lines, with a host; text goes as Latin-1."""
    parts = (first, "host: localhost", *lines, "", "")
    return b"\r\n".join(one if isinstance(one, bytes) else one.encode("latin-1") for one in parts)


WRONG_LINES = {
    "a blank before the colon": b"x : a",
    "a blank before the name": b" x: a",
    "a tab before the name": b"\tx: a",
    "a value on two lines": b"x: a\r\n b",
    "a value on two lines, by a tab": b"x: a\r\n\tb",
    "no colon": b"xyz",
    "no name": b": a",
    "NUL in the value": b"x: a\0b",
    "a carriage return in the value": b"x: a\rb",
    "a line feed alone": b"x: a\ny: b",
    "a control character in the value": b"x: a\x01b",
    "DEL in the value": b"x: a\x7fb",
    "NUL in the name": b"x\0y: a",
    "a letter beyond ASCII in the name": b"x\xe9: a",
    "a delimiter in the name": b"x(y): a",
    "a slash in the name": b"x/y: a",
    "an at sign in the name": b"x@y: a",
    "a bracket in the name": b"x[1]: a",
    "a quote in the name": b'"x": a',
}


@pytest.mark.parametrize("how", WRONG_LINES)
async def test_a_wrong_header_line_is_refused_with_all_that_follows(front: Front, how: str) -> None:
    line = WRONG_LINES[how]
    reading = head(MODELS, line) + PROBE
    writing = post(b"", path=HOT).replace(b"host", line + b"\r\nhost") + BODY + PROBE

    assert await front.outcome(reading) == (400, False)
    assert await front.outcome(writing) == (400, False)
    assert await front.outcome(*cut(writing, *range(1, 60))) == (400, False)
    assert not front.remote.requests


VALUES = {
    "as it is": (b"x-request-id: one", "one"),
    "in capitals": (b"X-REQUEST-ID: One", "One"),
    "without a blank": (b"x-request-id:one", "one"),
    "with blanks before it": (b"x-request-id: \t  one", "one"),
    "with blanks behind it": (b"x-request-id: one \t ", "one"),
    "with colons": (b"x-request-id: o:n:e", "o:n:e"),
    "behind an empty one": (b"x-empty:\r\nx-request-id: one", "one"),
    "behind one of blanks": (b"x-empty:  \r\nx-request-id: one", "one"),
    "behind all that a name may contain": (b"!#$%&'*+-.^_`|~09Az: a\r\nx-request-id: one", "one"),
    "behind a tab in a value": (b"x: a\tb\r\nx-request-id: one", "one"),
    "behind letters beyond ASCII": (b"x: caf\xe9 \xff\r\nx-request-id: one", "one"),
    "behind a long name": (b"x" * 1_000 + b": a\r\nx-request-id: one", "one"),
    "behind a long value": (b"x: " + b"a" * 60_000 + b"\r\nx-request-id: one", "one"),
    "behind a thousand others": (b"x: a\r\n" * 1_000 + b"x-request-id: one", "one"),
}


@pytest.mark.parametrize("apart", [False, True], ids=["in one write", "in pieces"])
@pytest.mark.parametrize("how", VALUES)
async def test_a_header_arrives(front: Front, how: str, apart: bool) -> None:
    line, value = VALUES[how]
    found: list[tuple[int, str]] = []

    for request in (
        head(MODELS, line),
        post(path=HOT).replace(b"host", line + b"\r\nhost", 1),
        post(READY, path=INDEX).replace(b"host", line + b"\r\nhost", 1),
    ):
        wire = await front.dial()
        step = max(len(request) // 60, 1)
        await wire.send(*(cut(request, *range(1, len(request), step)) if apart else [request]))
        reply = await wire.reply()
        assert await wire.kept()
        found.append((reply.status, reply["x-request-id"]))

    assert found == [(200, value)] * 3


TOO_LONG = {
    "a value": head(MODELS, "x: " + "a" * 200_000),
    "a name": head(MODELS, "x" * 200_000 + ": a"),
    "many headers": head(MODELS, *[f"x-{one}: a" for one in range(20_000)]),
    "a target": get("/" + "a" * 200_000),
    "a query": get("/v1/models?" + "a" * 200_000),
    "a method": get(method="A" * 200_000),
    "a version": get(version="1" * 200_000),
    "a host": get().replace(b"localhost", b"a" * 200_000),
    "a megabyte": head(MODELS, "x: " + "a" * 1_000_000),
}
REFUSED = {"a method": 400, "a version": 400, "a target": 414, "a query": 414}
SLIGHTLY = {
    "a value": (head(MODELS, "x: " + "a" * 65_600), 431),
    "many headers": (head(MODELS, *["x-n: a"] * 8_200), 431),
    "a target": (get("/" + "a" * 65_600), 414),
    "a query": (get("/v1/models?" + "a" * 65_600), 414),
    "a hot target": (post(path=f"{HOT}?{'a' * 65_600}"), 414),
    "a hot value": (post(fields="x: " + "a" * 65_600 + "\r\n"), 431),
    "a value with an offer": (head(MODELS, "upgrade: h2c", "x: " + "a" * 65_600), 431),
}


@pytest.mark.parametrize("apart", [False, True], ids=["in one write", "in pieces"])
@pytest.mark.parametrize("what", TOO_LONG)
async def test_a_head_that_is_too_long_is_refused_and_the_client_that_sends_it_learns_so(
    front: Front, what: str, apart: bool
) -> None:
    request = TOO_LONG[what]

    status, kept = await front.outcome(
        *(cut(request, *range(16_000, len(request), 16_000)) if apart else [request])
    )

    assert (status, kept) == (REFUSED.get(what, 431), False)


@pytest.mark.parametrize("before", [b"", PROBE], ids=["alone", "behind another request"])
@pytest.mark.parametrize("what", SLIGHTLY)
async def test_a_head_that_is_slightly_too_long_is_refused_though_it_arrives_at_once(
    front: Front, what: str, before: bytes
) -> None:
    request, status = SLIGHTLY[what]
    wire = await front.dial()

    await wire.send(before + request + PROBE)
    first = await wire.reply()

    assert first.status == (200 if before else status)
    assert (await wire.rest())[9:12] in ((b"", str(status).encode()) if before else (b"",))
    assert not front.remote.requests


LINES = {
    "a method with a bracket": "GE(T /healthz HTTP/1.1",
    "no method": " /healthz HTTP/1.1",
    "tabs": "GET\t/healthz\tHTTP/1.1",
    "a blank in the target": "GET /heal thz HTTP/1.1",
    "a blank at the end": "GET /healthz HTTP/1.1 ",
    "a blank at the start": " GET /healthz HTTP/1.1",
    "no target": "GET HTTP/1.1",
    "a version with two digits": "GET /healthz HTTP/1.10",
    "half a version": "GET /healthz HTTP/1",
    "no version": "GET /healthz",
    "the first version": "GET /healthz HTTP/0.9",
    "the first version, with an offer": "GET /healthz HTTP/0.9\r\nconnection: upgrade",
    "the version in small letters": "GET /healthz http/1.1",
    "another protocol": "GET /healthz HTTPS/1.1",
    "a control character": "GET /healthz\x01 HTTP/1.1",
    "DEL": "GET /healthz\x7f HTTP/1.1",
    "NUL": "GET /healthz\0 HTTP/1.1",
    "a letter beyond ASCII in the path": "GET /h\xe9 HTTP/1.1",
    "a letter beyond ASCII in the query": "GET /healthz?\xe9 HTTP/1.1",
    "a path without a slash": "GET healthz HTTP/1.1",
    "a host and port": "GET localhost:80 HTTP/1.1",
    "a query alone": "GET ?a=b HTTP/1.1",
    "a fragment alone": "GET #a HTTP/1.1",
    "another scheme": "GET ftp://localhost/healthz HTTP/1.1",
    "an absolute target with a user": "GET http://u:p@localhost/healthz HTTP/1.1",
    "an absolute target with a wrong port": "GET http://localhost:x/healthz HTTP/1.1",
    "a star for another method than OPTIONS": "POST * HTTP/1.1",
    "a tunnel to a path": "CONNECT /healthz HTTP/1.1",
}


@pytest.mark.parametrize("how", LINES)
async def test_a_wrong_request_line_is_refused_with_all_that_follows(
    front: Front, how: str
) -> None:
    assert await front.outcome(head(LINES[how]) + PROBE) == (400, False)


ENDS = {
    "line feeds alone": b"GET /healthz HTTP/1.1\nhost: localhost\n\n",
    "carriage returns alone": b"GET /healthz HTTP/1.1\rhost: localhost\r\r",
    "a line feed alone at the end": b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\n",
    "a first header that goes on": b"GET /healthz HTTP/1.1\r\n host: localhost\r\n\r\n",
}


@pytest.mark.parametrize("how", ENDS)
async def test_a_wrong_line_end_is_refused(front: Front, how: str) -> None:
    assert await front.outcome(ENDS[how] + PROBE) == (400, False)


@pytest.mark.parametrize("lines", [1, 5])
async def test_empty_lines_before_a_request_are_read_past(front: Front, lines: int) -> None:
    wire = await front.dial()

    await wire.send((b"\r\n" * lines + get()) * 2)

    assert [one.status for one in await wire.replies(2)] == [200, 200]
    assert await wire.kept()


@pytest.mark.parametrize("version", ["1.2", "1.9"])
async def test_a_later_version_of_http_1_is_answered_as_1_1(front: Front, version: str) -> None:
    assert await front.outcome(get(version=version)) == (200, True)
    assert await front.outcome(post(version=version)) == (200, True)
    assert await front.outcome(get(fields="upgrade: h2c\r\n", version=version)) == (200, True)
    no_host = get(version=version).replace(b"host", b"most")
    assert await front.outcome(no_host) == (400, False)


@pytest.mark.parametrize("version", ["2.0", "3.0", "2.1", "9.9"])
async def test_another_version_of_http_is_not_supported(front: Front, version: str) -> None:
    assert await front.outcome(get(version=version) + PROBE) == (505, False)
    assert await front.outcome(post(version=version) + PROBE) == (505, False)
    assert not front.remote.requests


@pytest.mark.parametrize("method", ["BREW", "get", "GETS", "DESCRIBE", "X-MY_METHOD.1", "A" * 300])
async def test_a_method_that_nobody_knows_is_not_implemented(front: Front, method: str) -> None:
    for path in ("/healthz", HOT):
        assert await front.outcome(get(path, method=method) + PROBE) == (501, False)
    assert not front.remote.requests


METHODS = ("GET", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "QUERY", "LINK", "PURGE")


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_that_a_route_does_not_accept_is_refused_by_the_route(
    front: Front, method: str
) -> None:
    allowed: list[set[str]] = []
    for path in (HOT, INDEX, "/v1/models")[: 2 if method == "GET" else 3]:
        wire = await front.dial()
        await wire.send(get(path, method=method))
        reply = await wire.reply()
        assert reply.status == 405
        assert await wire.kept()
        allowed.append(set(reply["allow"].split(", ")))

    assert allowed[:2] == [{"POST", "OPTIONS"}] * 2
    assert allowed[2:] in ([], [{"GET", "HEAD", "OPTIONS"}])


TARGETS = {
    "/v1/models": 200,
    "/v1/models?": 200,
    "/v1/models?a=b": 200,
    "/v1/models?a=b?c=/d": 200,
    "/v1/models?a=%zz&%": 200,
    "/v1/models?" + "a" * 60_000: 200,
    "/v1/models#a": 200,
    "/v1/models?a#b": 200,
    "/v1/mod%65ls": 200,
    "/v1/mod%65l%73?a": 200,
    "/v1/models/": 200,
    "//v1/models": 200,
    "/v1//models": 200,
    "http://localhost/v1/models": 200,
    "HTTP://LOCALHOST/v1/models": 200,
    "https://localhost/v1/models?a=b": 200,
    "http://localhost/v1/models#a": 200,
    "http://localhost?x=1": 200,
    "http://localhost": 200,
    "/": 200,
    "/v1/models%": 404,
    "/v1/models%2": 404,
    "/v1/models%zz": 404,
    "/v1/models%00": 404,
    "/v1/m%C3%B6dels": 404,
    "/v1/m%FFdels": 404,
    "/v1/models;a=b": 404,
    "/v1/./models": 404,
    "/v1/x/../models": 404,
    "/v1/%2e%2e/v1/models": 404,
    "/v1\\models": 404,
    '/v1/"models"': 404,
    "/v1/<models>": 404,
    "/v1/models|^{}`": 404,
    "/" + "a" * 8_000: 404,
    "/" + "a" * 60_000: 404,
}


@pytest.mark.parametrize(
    "target", TARGETS, ids=lambda one: one if len(one) < 50 else f"{one[:20]}…"
)
async def test_a_target_leads_to_its_route(front: Front, target: str) -> None:
    assert await front.outcome(get(target)) == (TARGETS[target], True)


HOT_TARGETS = {
    "/v1/chat/completions?": 200,
    "/v1/chat/completions?api-version=1": 200,
    "/v1/chat/completions#a": 200,
    "/v1/chat/c%6fmpletions": 200,
    "/v1/chat/completions/": 200,
    "//v1/chat/completions": 200,
    "http://localhost/v1/chat/completions?a": 200,
    "/serving-endpoints/chat/invocations": 200,
    "/serving-endpoints/ch%61t/invocations": 200,
    "/v1/chat/completions%00": 404,
    "/v1/./chat/completions": 404,
}


@pytest.mark.parametrize("target", HOT_TARGETS)
async def test_a_target_leads_to_its_hot_route(front: Front, target: str) -> None:
    assert await front.outcome(post(path=target)) == (HOT_TARGETS[target], True)
    assert len(front.remote.requests) == (HOT_TARGETS[target] == 200)


async def test_the_host_of_an_absolute_target_is_the_one_that_counts(front: Front) -> None:
    """Without keys this gateway answers only under its own names."""
    ours = b"GET http://localhost/healthz HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n"
    theirs = b"GET http://elsewhere.example/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"

    assert await front.outcome(ours) == (200, True)
    assert await front.outcome(theirs) == (403, False)


HOSTS = {
    "a name": ("localhost", (200, True)),
    "a name in capitals": ("LOCALHOST", (200, True)),
    "a name with a port": ("localhost:4000", (200, True)),
    "an address": ("127.0.0.1:4000", (200, True)),
    "a name with an empty port": ("localhost:", (200, True)),
    "a name with blanks behind it": ("localhost \t ", (200, True)),
    "another name": ("elsewhere.example", (403, False)),
    "an address with an open bracket": ("[::1", (400, False)),
    "two names": ("localhost, localhost", (400, False)),
    "a scheme": ("http://localhost", (400, False)),
    "a letter beyond ASCII": ("caf\xe9", (400, False)),
    "a port of six digits": ("localhost:123456", (400, False)),
    "an escape that is none": ("local%zzhost", (400, False)),
}


@PATHS
@pytest.mark.parametrize("how", HOSTS)
async def test_a_host_is_checked_before_the_request(front: Front, path: str, how: str) -> None:
    host, outcome = HOSTS[how]
    request = post(BODIES[path], path=path).replace(b"localhost", host.encode("latin-1"), 1)

    assert await front.outcome(request) == outcome
    assert len(front.remote.requests) == (outcome[1] and path == HOT)
