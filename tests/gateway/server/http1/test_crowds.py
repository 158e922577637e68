"""More clients than there is room for: unused connections make room, busy ones stay."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.certificates import Issued
from tests.gateway.server.http1.front import BODY, WAITS, Front, fronting, get, post
from tests.gateway.server.http1.wire import PROBE, Wire

pytestmark = pytest.mark.anyio

MOST: Final = 8
SPARE: Final = 1
KEY: Final = "authorization: Bearer key-of-a-client\r\n"
CHAT: Final = post(BODY, KEY)
STREAM: Final = post(WAITS, KEY)
ELSEWHERE: Final = "127.0.0.2"
SETTINGS: Final = f"""
auth: {{mode: keys, keys: [
  {{name: client, key: key-of-a-client}}, {{name: b, key: key-of-b}}, {{name: c, key: key-of-c}}]}}
server: {{max_body_bytes: 100000, max_connections: {MOST}}}
"""
STRANGERS: Final = {
    "that say nothing": b"",
    "with half a head": b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-le",
    "with half a body": post(b"x" * 100, KEY)[:-50],
    "with half a large body and no key": post(b"x" * 90_000)[:-50],
    "with half a body for Litestar": post(b"x" * 100, path="/v1/feedback")[:-50],
    "that were answered": PROBE,
}


@asynccontextmanager
async def gateway(
    folder: Path, settings: str = "", issued: Issued | None = None
) -> AsyncGenerator[Front, None]:
    more = SETTINGS.replace(f"connections: {MOST}", f"connections: {MOST}{settings}")
    async with fronting(folder, issued, more) as front:
        yield front
        for wire in front.wires:
            wire.close()


async def busy(front: Front, count: int) -> Sequence[Wire]:
    """So many connections with a stream that has begun, of three keys in turn."""
    streams: list[Wire] = []
    for number in range(count):
        key = (b"key-of-a-client", b"key-of-b", b"key-of-c")[number % 3]
        streams += await crowd(front, 1, STREAM.replace(b"key-of-a-client", key))
        await streams[-1].until(b"hel")
    return streams


async def crowd(front: Front, count: int, first: bytes = b"", source: str = "") -> Sequence[Wire]:
    """So many connections that send this and nothing more."""
    wires: list[Wire] = []
    for _ in range(count):
        wire = await front.dial(source=source)
        if first:
            await wire.send(first)
        wires.append(wire)
    return wires


async def asked(front: Front, request: bytes, source: str = ELSEWHERE) -> tuple[int, str]:
    """The status on a new connection, and what is said about it."""
    wire = await front.dial(source=source)
    await wire.send(request)
    reply = await wire.reply()
    return reply.status, reply["connection"]


@pytest.mark.parametrize("what", STRANGERS)
async def test_a_new_client_is_served_however_many_strangers_are_connected(
    what: str, tmp_path: Path
) -> None:
    async with gateway(tmp_path) as front:
        await crowd(front, 5 * MOST, STRANGERS[what])

        assert await asked(front, PROBE) == (200, "")
        assert await asked(front, CHAT) == (200, "")


async def test_half_handshakes_make_room_too(tmp_path: Path) -> None:
    async with gateway(tmp_path, issued=Issued.to(tmp_path, "127.0.0.1")) as front:
        context, front.context = front.context, None
        await crowd(front, 5 * MOST, b"\x16\x03\x01")
        front.context = context

        assert await asked(front, CHAT) == (200, "")


async def test_a_client_with_a_valid_key_keeps_its_connection_among_strangers(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as front:
        client = await front.dial(source=ELSEWHERE)
        await client.send(CHAT)
        assert (await client.reply()).status == 200

        for what in STRANGERS.values():
            await crowd(front, 2 * MOST, what, source="127.0.0.3")

        assert await client.kept()


async def test_the_address_with_the_most_connections_makes_room(tmp_path: Path) -> None:
    async with gateway(tmp_path) as front:
        few = await crowd(front, 2, PROBE, ELSEWHERE)
        assert [(await one.reply()).status for one in few] == [200, 200]

        await crowd(front, 5 * MOST, source="127.0.0.3")

        assert [await one.kept() for one in few] == [True, True]


async def test_a_proxy_that_is_trusted_makes_room_last(tmp_path: Path) -> None:
    trusted = f", trusted_proxies: [{ELSEWHERE}]"
    async with gateway(tmp_path, trusted) as front:
        proxied = await crowd(front, MOST - 1, CHAT, ELSEWHERE)
        assert {(await one.reply()).status for one in proxied} == {200}

        for _ in range(3):
            assert (await asked(front, CHAT, "127.0.0.3"))[0] == 200

        assert [await one.kept() for one in proxied] == [True] * (MOST - 1)


async def test_a_request_that_is_being_answered_is_never_cut(tmp_path: Path) -> None:
    async with gateway(tmp_path) as front:
        streams = await busy(front, MOST)

        healthy = await asked(front, PROBE)
        await crowd(front, 3 * MOST)
        models = await asked(front, get(fields=KEY))
        front.go_on.set()

        assert healthy == models == (200, "close")
        for stream in streams:
            await stream.until(b"[DONE]")


async def test_one_key_leaves_connections_to_others(tmp_path: Path) -> None:
    """With its share of `max_in_flight` it could hold all of them."""
    async with gateway(tmp_path) as front:
        streams = await crowd(front, MOST // 2, STREAM)
        for stream in streams:
            await stream.until(b"hel")

        further = await asked(front, STREAM)
        other = await asked(front, CHAT.replace(b"key-of-a-client", b"key-of-b"))
        front.go_on.set()

        assert further[0] == 429
        assert other[0] == 200


async def test_beyond_the_spare_connections_a_client_is_told_why_it_is_refused(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as front:
        streams = await busy(front, MOST + SPARE)

        refused = await front.dial(source=ELSEWHERE)
        reply = await refused.reply()
        front.go_on.set()
        for stream in streams:
            await stream.until(b"[DONE]")

        assert reply.status == 503
        assert b"too many connections" in reply.body
        assert (await asked(front, CHAT))[0] == 200


async def test_an_address_has_at_most_its_number_of_connections(tmp_path: Path) -> None:
    limited = ", max_connections_per_address: 3, trusted_proxies: [127.0.0.4]"
    async with gateway(tmp_path, limited) as front:
        await crowd(front, 3)

        refused = await front.dial()
        reply = await refused.reply()

        assert reply.status == 429
        assert b"This address has too many connections" in reply.body
        assert (await asked(front, PROBE))[0] == 200
        assert [await one.kept() for one in await crowd(front, 5, source="127.0.0.4")] == [True] * 5
