"""Answers: how each ends, and the headers that the server adds."""

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest

from tests.gateway.server.http1.front import BODY, HOT, INDEX, READY, STREAM, Front, get, post
from tests.gateway.server.http1.wire import cut

pytestmark = pytest.mark.anyio

OPERATOR = "authorization: Bearer key-of-the-operator\r\n"
ANSWERS = {
    "whole": (post(), 200, "length"),
    "streamed": (post(STREAM), 200, "chunked"),
    "of a surface's own stream": (
        post(STREAM.replace(b'"model": "chat", ', b""), path="/serving-endpoints/chat/invocations"),
        200,
        "chunked",
    ),
    "refused": (post(b"{}"), 400, "length"),
    "to a method that is not allowed": (get(HOT), 405, "length"),
    "to a preflight": (get(HOT, method="OPTIONS"), 204, "none"),
    "of Litestar": (get(), 200, "length"),
    "of Litestar to a POST": (post(READY, path=INDEX), 200, "length"),
    "of Litestar without a body": (get(method="OPTIONS"), 204, "none"),
    "of Litestar to an unknown path": (get("/nowhere"), 404, "length"),
    "of Litestar to a method that is not allowed": (get(method="PUT"), 405, "length"),
    "a redirection": (get("/admin", OPERATOR.replace("Bearer", "Wrong")), 303, "length"),
    "metrics": (get("/metrics"), 200, "length"),
    "a page": (get("/docs"), 200, "length"),
    "health": (get("/healthz"), 200, "length"),
}
KINDS = pytest.mark.parametrize("kind", ANSWERS)


@KINDS
async def test_an_answer_ends_where_its_head_says(front: Front, kind: str) -> None:
    request, status, framing = ANSWERS[kind]
    wire = await front.dial()

    for _ in range(2):
        await wire.send(request)
        reply = await wire.reply()
        assert (reply.status, reply.framing) == (status, framing)
        assert bool(reply.body) == (framing != "none" and status != 303)
        assert reply["connection"] == ""

    assert await wire.kept()


@KINDS
async def test_an_answer_has_one_date_and_says_no_header_twice(front: Front, kind: str) -> None:
    wire = await front.dial()

    await wire.send(ANSWERS[kind][0])
    reply = await wire.reply()

    date = parsedate_to_datetime(reply["date"])
    assert reply["date"].endswith(" GMT")
    assert abs((datetime.now(UTC) - date).total_seconds()) < 30
    names = [name for name, _ in reply.lines]
    assert len(names) == len(set(names))


REFUSALS = {
    400: get().replace(b"host", b"most"),
    414: get("/" + "a" * 70_000),
    431: get(fields="x: " + "a" * 70_000 + "\r\n"),
    501: get(method="BREW"),
    505: get(version="2.0"),
}


@pytest.mark.parametrize("status", REFUSALS)
async def test_a_refusal_of_the_server_itself_has_a_date_and_a_length(
    front: Front, status: int
) -> None:
    wire = await front.dial()

    await wire.send(REFUSALS[status])
    reply = await wire.reply()

    assert (reply.status, reply.framing, reply["connection"]) == (status, "length", "close")
    date = parsedate_to_datetime(reply["date"])
    assert abs((datetime.now(UTC) - date).total_seconds()) < 30


async def test_the_methods_of_the_whole_server_can_be_asked_for(front: Front) -> None:
    wire = await front.dial()

    await wire.send(get("*", method="OPTIONS"))
    reply = await wire.reply()

    assert (reply.status, reply["allow"]) == (204, "GET, HEAD, POST, OPTIONS")
    assert await wire.kept()


@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/health", "/docs", "/nowhere"])
async def test_head_is_get_without_the_body(front: Front, path: str) -> None:
    wire = await front.dial()

    await wire.send(get(path) + get(path, method="HEAD") * 2)
    whole, first, second = await wire.reply(), await wire.reply("HEAD"), await wire.reply("HEAD")

    assert first.status == second.status == whole.status
    if path != "/nowhere":  # its body names the method
        assert first["content-length"] == second["content-length"] == whole["content-length"]
    assert first["content-type"] == whole["content-type"]
    assert await wire.kept()


async def test_head_of_a_route_that_takes_posts_is_refused_without_a_body(front: Front) -> None:
    for path in (HOT, INDEX):
        assert await front.outcome(get(path, method="HEAD"), method="HEAD") == (405, True)


async def test_a_file_that_the_client_has_is_304_without_a_body(front: Front) -> None:
    wire = await front.dial()
    target = "/admin/static/page.css"

    await wire.send(get(target))
    tag = (await wire.reply())["etag"]
    await wire.send(get(target, f"if-none-match: {tag}\r\n") * 2)

    assert tag
    assert [one.status for one in await wire.replies(2)] == [304, 304]
    assert await wire.kept()


async def test_a_stream_has_no_empty_chunk_but_the_last_one(front: Front) -> None:
    wire = await front.dial()

    await wire.send(post(STREAM))
    reply = await wire.reply()

    assert len(reply.chunks) >= 1
    assert all(reply.chunks)
    assert reply["content-type"] == "text/event-stream; charset=utf-8"
    frames = [line for line in reply.body.split(b"\n\n") if line]
    assert frames[-1] == b"data: [DONE]"
    assert all(json.loads(one.removeprefix(b"data: ")) for one in frames[:-1])


async def test_answers_are_alike_however_their_requests_arrive(front: Front) -> None:
    wire = await front.dial()
    found: list[tuple[tuple[str, ...], int]] = []

    for pieces in ([post(BODY)], cut(post(BODY), 100), cut(post(BODY), *range(1, 150))):
        await wire.send(*pieces)
        reply = await wire.reply()
        found.append((tuple(name for name, _ in reply.lines), len(reply.body)))

    assert len(set(found)) == 1
