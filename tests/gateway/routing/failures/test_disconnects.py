"""A client that disconnects, at any moment, stops the work: the upstream connection closes."""

import asyncio
import json
from pathlib import Path

import pytest

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, provider, silent

pytestmark = pytest.mark.anyio


async def hang_up_after(gateway: Serving, *, stream: bool, wait_for: bytes = b"") -> None:
    """Send a request, wait until `wait_for` was received (if anything), and disconnect."""
    port = int(gateway.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(
        {"model": "chat", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    ).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    if wait_for:
        await reader.readuntil(wait_for)
    else:
        await asyncio.sleep(0.1)
    writer.close()


async def endless(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    while True:
        await answer.text("la ")
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("stream", [False, True])
async def test_before_the_first_token(stream: bool, tmp_path: Path) -> None:
    async with provider(silent) as remote, serving(one_model(remote.base_url), tmp_path) as gateway:
        await hang_up_after(gateway, stream=stream)

        await remote.until(lambda: remote.hung_up == 1 and remote.open == 0)

        (line,) = await lines(gateway)
        assert (line.status, line.error) == (499, "client_closed_request")


async def test_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    async with (
        provider(endless) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
    ):
        await hang_up_after(gateway, stream=True, wait_for=b"la ")

        await remote.until(lambda: remote.hung_up == 1 and remote.open == 0)

        (line,) = await lines(gateway)
        assert line.status == 499
        assert line.usage_source == "estimated"
        assert (line.completion_tokens or 0) >= 1


async def test_five_hundred_aborts_leave_nothing_behind(tmp_path: Path) -> None:
    async with (
        provider(endless) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
    ):
        for _ in range(10):
            await asyncio.gather(
                *(hang_up_after(gateway, stream=True, wait_for=b"la ") for _ in range(50))
            )

        await remote.until(lambda: remote.open == 0 and remote.hung_up == 500)
        assert len(await lines(gateway, 500)) == 500
        assert gateway.state.admission.in_flight == 0
        assert gateway.state.shares.buffered == 0


async def lines(gateway: Serving, count: int = 1) -> list[AccessLine]:
    """The access lines, once there are so many; the booking comes just after the hang-up."""
    for _ in range(500):
        found = gateway.access_lines()
        if len(found) >= count:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(gateway.access_lines())} access lines, wanted {count}")
