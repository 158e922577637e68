"""Client connections: offers of HTTP/2, oversized heads, pipelining."""

import json
from collections.abc import AsyncGenerator

import pytest

from strowger_gateway.gateway.server.http1.request_parser import MOST_HEAD_BYTES
from tests.gateway.by_hand import connect, head
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

BODY = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "h2c"}]}).encode()
STREAMED = json.dumps({**json.loads(BODY), "stream": True, "user": "waits"}).encode()
OFFER = (
    "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n"
)
Gateway = tuple[Serving, Provider]


def post(body: bytes = BODY, more: str = "") -> bytes:
    return head(f"content-length: {len(body)}\r\n{more}") + body


async def behave(request: Received, answer: Answer) -> None:
    if request.json.get("user") == "waits":
        await answer.begin_stream()
        await answer.text("hel")
        await answer.gone.wait()
    else:
        await answers(request, answer)


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture(scope="module")
async def gateway(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Gateway, None]:
    async with provider(behave) as remote:
        patient = one_model(remote.base_url).replace("between_tokens_s: 1", "between_tokens_s: 5")
        async with serving(patient, tmp_path_factory.mktemp("run")) as running:
            yield running, remote


CHUNKED = head(f"transfer-encoding: chunked\r\n{OFFER}")
IN_CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
OFFERS: dict[str, tuple[bytes, ...]] = {
    "in one piece": (post(more=OFFER),),
    "the body apart, as Java sends it": (
        head(f"content-length: {len(BODY)}\r\n{OFFER}"),
        BODY,
    ),
    "in chunks": (CHUNKED + IN_CHUNKS,),
    "the chunks apart": (CHUNKED, IN_CHUNKS[:9], IN_CHUNKS[9:]),
    "the head in two": (post(more=OFFER)[:90], post(more=OFFER)[90:]),
}


@pytest.mark.parametrize("how", OFFERS)
async def test_an_offer_of_http_2_is_read_past_and_the_request_answered(
    gateway: Gateway, how: str
) -> None:
    client = await connect(gateway[0].url)

    await client.say(*OFFERS[how])
    first = await client.receives()
    await client.say(post())
    second = await client.receives()
    await client.say(*OFFERS[how])
    third = await client.receives()
    client.writer.close()

    assert [status for status, _ in (first, second, third)] == [200, 200, 200]
    assert all(b'"hello"' in body for _, body in (first, second, third))


async def test_a_head_without_end_is_refused(gateway: Gateway) -> None:
    client = await connect(gateway[0].url)

    await client.say(b"GET /healthz HTTP/1.1\r\nx: " + b"a" * (MOST_HEAD_BYTES // 2))
    await client.say(b"a" * MOST_HEAD_BYTES)

    assert await client.receives() == (431, b"")
    assert await client.over()


async def test_a_long_conversation_has_no_long_head(gateway: Gateway) -> None:
    """What counts is the head alone: not bodies, and not the heads before it."""
    client = await connect(gateway[0].url)
    long = head(f"content-length: {len(BODY)}\r\nx-long: {'a' * (MOST_HEAD_BYTES // 3)}\r\n")
    found: list[int] = []

    for _ in range(6):
        await client.say(long[:9_000], long[9_000:], BODY)
        found.append((await client.receives())[0])
    client.writer.close()

    assert found == [200] * 6


async def test_a_tunnel_is_refused(gateway: Gateway) -> None:
    client = await connect(gateway[0].url)

    await client.say(b"CONNECT x:443 HTTP/1.1\r\nhost: localhost\r\n\r\n")

    assert (await client.receives())[0] == 400
    assert await client.over()


async def test_requests_that_arrive_together_are_answered_in_order(gateway: Gateway) -> None:
    client = await connect(gateway[0].url)
    wrong = post(b"{}")

    await client.say(post() + wrong + post())
    found = [(await client.receives())[0] for _ in range(3)]
    client.writer.close()

    assert found == [200, 400, 200]


async def test_a_disconnect_is_noticed_though_the_next_request_waits(
    gateway: Gateway,
) -> None:
    running, remote = gateway
    client = await connect(gateway[0].url)

    await client.say(post(STREAMED) + post())
    assert (await client.receives())[0] == 200
    gone = remote.hung_up
    client.writer.close()
    await remote.until(lambda: remote.hung_up > gone, 2.0)

    assert running.state.admission.in_flight == 0
    assert running.access_lines()[-1].status == 499
