"""Clients that end their side, close, or vanish, at every moment of a request."""

import asyncio
import logging

import pytest

from strowger_gateway.gateway.server.http1 import connection
from tests.gateway.server.http1.front import (
    BODIES,
    BODY,
    FEEDBACK,
    HOT,
    INDEX,
    IS_LATE,
    NEVER_ENDS,
    STREAM,
    WAITS,
    Front,
    get,
    in_chunks,
    post,
)
from tests.gateway.server.http1.wire import PROBE, Wire, chunked, cut

pytestmark = pytest.mark.anyio


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, marks=pytest.mark.nightly), True],
    ids=["asyncio", "uvloop"],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


LEAVE = {"ends its side": Wire.end, "closes": Wire.close, "vanishes": Wire.reset}
HOWEVER = pytest.mark.parametrize("how", LEAVE)

WHOLE = {
    "a GET": (get(), 1),
    "a POST": (post(), 1),
    "a POST in chunks": (in_chunks(chunked(BODY[:9], BODY[9:])), 1),
    "a POST to Litestar": (post(BODIES[INDEX], path=INDEX), 1),
    "a stream": (post(STREAM), 1),
    "a mistake": (post(b"{"), 1),
    "several requests": (get() + post() + get("/nowhere"), 3),
}


@pytest.mark.parametrize("apart", [False, True], ids=["in one write", "in pieces"])
@pytest.mark.parametrize("what", WHOLE)
async def test_a_client_that_has_sent_everything_and_ends_its_side_is_answered(
    front: Front, what: str, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In time: a busy machine may take longer for an answer than such a client has."""
    monkeypatch.setattr(connection, "HALF_CLOSED_S", 10.0)
    request, count = WHOLE[what]
    wire = await front.dial()

    await wire.send(*(cut(request, *range(7, len(request), 7)) if apart else [request]))
    wire.end()
    replies = await wire.replies(count)

    assert {one.status for one in replies} <= {200, 400, 404}
    assert await wire.ended()


HALVES = {
    "a request line": get()[:9],
    "a head": get()[:-2],
    "a head with a body to come": post()[:80],
    "a head alone": post()[: -len(BODY)],
    "a body": post()[:-5],
    "a chunk's size": in_chunks(b"2"),
    "a chunk": in_chunks(b"20\r\n{"),
    "the last chunk": in_chunks(b"2\r\n{}\r\n0\r\n"),
    "a head after a request": PROBE + get()[:9],
    "a body after a request": PROBE + post()[:-5],
}


@HOWEVER
@pytest.mark.parametrize("what", HALVES)
async def test_a_client_that_leaves_within_a_request_leaves_nothing(
    front: Front, what: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await front.dial()

    with caplog.at_level(logging.WARNING):
        await wire.send(HALVES[what])
        if HALVES[what].startswith(PROBE):
            await wire.reply()
        LEAVE[how](wire)
        if how == "ends its side":
            assert await wire.ended()
        await front.until_idle()

    assert not front.remote.requests
    assert not caplog.records
    assert (await front.outcome(get())) == (200, True)


READ_BY_LITESTAR = {
    "before a body": post(BODY, path=FEEDBACK)[: -len(BODY)],
    "within a body": post(BODY, path=FEEDBACK)[:-5],
    "within a chunk": in_chunks(b"20\r\n{", path=FEEDBACK),
    "before the last chunk": in_chunks(b"2\r\n{}\r\n", path=FEEDBACK),
}


@HOWEVER
@pytest.mark.parametrize("when", READ_BY_LITESTAR)
async def test_a_client_that_leaves_within_a_body_that_litestar_reads_is_no_error(
    front: Front, when: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Or any client could fill the log."""
    wire = await front.dial()
    before = await internal_errors(front)

    with caplog.at_level(logging.INFO):
        await wire.send(READ_BY_LITESTAR[when])
        await asyncio.sleep(0.01)
        LEAVE[how](wire)
        if how == "ends its side":
            assert await wire.ended()
        assert await internal_errors(front) == before

    assert not caplog.records


async def internal_errors(front: Front) -> list[bytes]:
    """What the metrics say of them."""
    wire = await front.dial()
    await wire.send(get("/metrics"))
    lines = (await wire.reply()).body.splitlines()
    return [line for line in lines if line.startswith(b"strowger_internal_errors")]


@HOWEVER
@pytest.mark.parametrize("asked", [IS_LATE, WAITS], ids=["a whole answer", "a stream"])
async def test_a_client_that_leaves_while_it_waits_cancels_the_call(
    front: Front, asked: bytes, how: str
) -> None:
    wire = await front.dial()
    gone = front.remote.hung_up

    await wire.send(post(asked))
    await front.remote.until(lambda: len(front.remote.requests) == 1)
    LEAVE[how](wire)
    await front.remote.until(lambda: front.remote.hung_up > gone)
    await front.until_idle()

    assert front.running.access_lines()[-1].status == 499


@HOWEVER
async def test_a_client_that_leaves_within_a_stream_cancels_the_call(
    front: Front, how: str
) -> None:
    wire = await front.dial()
    gone = front.remote.hung_up

    await wire.send(post(NEVER_ENDS))
    await wire.until(b'xxx"')
    LEAVE[how](wire)
    if how == "ends its side":
        assert not (await wire.rest()).endswith(b"0\r\n\r\n")
    await front.remote.until(lambda: front.remote.hung_up > gone)
    await front.until_idle()

    assert front.running.access_lines()[-1].status == 499


@HOWEVER
async def test_what_a_client_that_leaves_had_sent_behind_is_not_begun(
    front: Front, how: str
) -> None:
    wire = await front.dial()
    gone = front.remote.hung_up

    await wire.send(post(IS_LATE) + post() * 3)
    await front.remote.until(lambda: len(front.remote.requests) == 1)
    LEAVE[how](wire)
    await front.remote.until(lambda: front.remote.hung_up > gone)
    await front.until_idle()

    assert len(front.remote.requests) == 1


@pytest.mark.parametrize("target", ["/metrics", "/docs"])
async def test_a_client_that_leaves_before_it_reads_is_no_error(
    front: Front, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for leave in (Wire.close, Wire.reset):
            wire = await front.dial()
            await wire.send(get(target) * 20)
            leave(wire)
        wire = await front.dial()
        wire.close()

        assert await front.outcome(get(target)) == (200, True)
    assert not caplog.records


async def test_a_hundred_clients_that_leave_at_once_leave_nothing(front: Front) -> None:
    wires = [await front.dial() for _ in range(100)]
    for wire in wires:
        await wire.send(post(IS_LATE))
    await front.remote.until(lambda: len(front.remote.requests) == 100)

    for number, wire in enumerate(wires):
        (wire.reset if number % 2 else wire.close)()
    await front.until_idle()

    assert {one.status for one in front.running.access_lines()[-100:]} == {499}
    assert await front.outcome(post(path=HOT)) == (200, True)
