"""Expiring tokens: fetched once for all requests, replaced ahead of time, and never shown."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.databricks.oauth import TOKENS
from strowger_gateway.gateway.backends.upstream.credentials.client_credentials import (
    ClientCredentials,
    Grant,
)
from strowger_gateway.gateway.backends.upstream.credentials.transport import (
    AuthorizedTransport,
    with_headers,
)
from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport
from strowger_gateway.gateway.backends.upstream.transport import Reply
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.schemas.errors import (
    Unavailable,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from strowger_gateway.schemas.secret import Secret
from tests.gateway.backends.upstream.wire.exchanging import soon
from tests.stand_ins.databricks_server import DatabricksServer, databricks_server
from tests.stand_ins.doubles import SOON_S
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

CHAT = b'{"messages":[{"role":"user","content":"hi"}]}'
ASK = Outbound(
    target="/serving-endpoints/m/invocations",
    headers=(("content-type", "application/json"), ("authorization", "Bearer of-the-adapter")),
    body=CHAT,
)


def grant(server: DatabricksServer, **changes: str) -> Grant:
    given = {"client_id": server.client_id, "scope": "all-apis"} | changes
    return Grant(
        url=f"{server.base_url}/oidc/v1/token",
        client_id=given["client_id"],
        client_secret=Secret(given.get("client_secret", server.client_secret)),
        scope=given["scope"],
        auth="body" if given.get("auth") == "body" else "basic",
    )


def credentials_for(what: Grant) -> ClientCredentials:
    origin = what.url.removesuffix("/oidc/v1/token")
    transport = HttpxTransport(origin, name="dbx", max_connections=1)
    return ClientCredentials(what, transport, upstream="dbx", connect_s=2.0, lapsed=TOKENS.lapsed)


@asynccontextmanager
async def authorized(
    server: DatabricksServer, **changes: str
) -> AsyncGenerator[AuthorizedTransport]:
    transport = AuthorizedTransport(
        WireTransport(server.base_url, name="dbx", max_connections=100),
        credentials_for(grant(server, **changes)),
    )
    try:
        yield transport
    finally:
        await transport.aclose()


async def ask(transport: AuthorizedTransport) -> tuple[int, bytes]:
    reply: Reply = await transport.exchange(ASK, connect_by=soon(), head_by=soon())
    try:
        return reply.status, await reply.body(soon(), 10_000)
    finally:
        await reply.aclose()


@pytest.mark.parametrize("auth", ["basic", "body"])
async def test_requests_carry_a_token_in_place_of_the_adapters_header(auth: str) -> None:
    async with databricks_server() as server, authorized(server, auth=auth) as transport:
        status, _ = await ask(transport)

    [request], [token_request] = server.requests, server.token_requests
    assert status == 200
    assert request.headers["authorization"] == f"Bearer {server.issued[0]}"
    assert request.headers["content-type"] == "application/json"
    assert request.body == CHAT
    assert ("authorization" in token_request.headers) == (auth == "basic")
    assert (b"client_secret" in token_request.body) == (auth == "body")


async def test_a_hundred_concurrent_requests_fetch_one_token() -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.token_delay_s = 0.05
        answers = await asyncio.gather(*(ask(transport) for _ in range(100)))
        again, _ = await ask(transport)

    assert {status for status, _ in answers} == {200}
    assert again == 200
    assert server.token_calls == 1


async def test_one_that_gives_up_waiting_does_not_end_it_for_the_others() -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.token_delay_s = 0.1
        impatient = asyncio.create_task(ask(transport))
        patient = asyncio.create_task(ask(transport))
        await asyncio.sleep(0.02)
        impatient.cancel()
        status, _ = await patient

    assert status == 200
    assert server.token_calls == 1


async def test_tokens_are_replaced_while_requests_go_on() -> None:
    async with databricks_server(lifetime_s=0.5) as server, authorized(server) as transport:
        statuses: list[int] = []
        async with asyncio.timeout(SOON_S):
            while server.token_calls < 3:
                statuses.append((await ask(transport))[0])
                await asyncio.sleep(0.005)

    assert set(statuses) == {200}


async def test_without_requests_a_token_is_left_to_expire_and_the_next_request_waits() -> None:
    async with databricks_server(lifetime_s=0.2) as server, authorized(server) as transport:
        await ask(transport)
        await asyncio.sleep(0.6)
        calls = server.token_calls
        status, _ = await ask(transport)

    assert calls <= 2
    assert status == 200
    assert server.requests[-1].headers["authorization"] == f"Bearer {server.issued[-1]}"


async def test_a_request_waits_for_a_token_no_longer_than_it_may() -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.token_delay_s = 5.0

        with pytest.raises(UpstreamTimeout, match="dbx: no credentials in time"):
            await transport.exchange(ASK, connect_by=soon(0.05), head_by=soon(0.1))

    assert server.requests == []


async def test_an_endpoint_that_fails_is_not_called_by_every_request() -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.fail_tokens(503, {"message": "down"}, times=50)
        began = soon(0)
        outcomes = await asyncio.gather(
            *(ask(transport) for _ in range(20)), return_exceptions=True
        )
        outcomes += await asyncio.gather(
            *(ask(transport) for _ in range(20)), return_exceptions=True
        )
        pauses = int((soon(0) - began) / 0.5)

    assert 1 <= server.token_calls <= 1 + pauses
    assert server.requests == []
    for outcome in outcomes:
        assert isinstance(outcome, UpstreamUnreachable)
        assert outcome.retry_after is not None
        assert 0 < outcome.retry_after <= 1 + pauses


async def test_an_endpoint_that_recovers_is_called_again_after_the_pause() -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.fail_tokens(503)
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask(transport)
        await asyncio.sleep((caught.value.retry_after or 0) + 0.002)  # timers fire early

        status, _ = await ask(transport)

    assert status == 200


@pytest.mark.parametrize("status", [401, 403])
async def test_a_revoked_token_is_replaced_and_its_requests_are_answered(status: int) -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.expired_is = status
        await ask(transport)
        server.revoke()
        answers = await asyncio.gather(*(ask(transport) for _ in range(30)))

    assert {status for status, _ in answers} == {200}
    assert server.token_calls == 2


async def test_a_lack_of_permission_does_not_cost_the_token() -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.fail(403, "PERMISSION_DENIED", "no CAN_QUERY on this endpoint")
        status, body = await ask(transport)
        again, _ = await ask(transport)

    assert (status, again) == (403, 200)
    assert b"CAN_QUERY" in body
    assert len(server.requests) == 2
    assert server.token_calls == 1


async def test_a_provider_that_refuses_every_token_is_not_hammered() -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.accepting = False
        answers = [await ask(transport) for _ in range(50)]

    assert {status for status, _ in answers} == {401}
    assert b"UNAUTHENTICATED" in answers[0][1]
    assert 2 <= server.token_calls <= 3


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (
            401,
            {"error": "invalid_client", "error_description": "no such client"},
            UpstreamRefused,
            "the token endpoint answered 401: invalid_client: no such client",
        ),
        (
            400,
            {"error": "invalid_scope"},
            UpstreamRefused,
            "the token endpoint answered 400: invalid_scope",
        ),
        (
            403,
            {"error_code": "PERMISSION_DENIED", "message": "not in this network"},
            UpstreamRefused,
            "answered 403: not in this network",
        ),
        (302, {}, UpstreamRefused, "answered 302; check oauth.token_url"),
        (429, {"message": "slow down"}, UpstreamUnreachable, "answered 429: slow down"),
        (500, {}, UpstreamUnreachable, "answered 500"),
        (200, {"token": "x"}, UpstreamRefused, "the response is not that of a token endpoint"),
        (200, {"access_token": ""}, UpstreamRefused, "the token is empty, or has already expired"),
        (200, {"access_token": "a", "expires_in": 0}, UpstreamRefused, "has already expired"),
        (200, {"access_token": "a", "token_type": "mac"}, UpstreamRefused, "not a bearer token"),
        (200, {"access_token": "a\r\nx: y"}, UpstreamRefused, "characters that cannot be sent"),
    ],
)
async def test_the_reason_for_a_missing_token_is_reported(
    status: int, body: dict[str, object], kind: type[UpstreamError], text: str
) -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.fail_tokens(status, body)

        with pytest.raises(kind) as caught:
            await ask(transport)

    assert caught.value.message.startswith("dbx: no access token: ")
    assert text in caught.value.message


async def test_retry_after_of_the_token_endpoint_is_passed_on() -> None:
    async with databricks_server() as server, authorized(server) as transport:
        server.fail_tokens(429, headers={"retry-after": "9"})

        with pytest.raises(UpstreamUnreachable) as caught:
            await ask(transport)

    assert caught.value.retry_after == pytest.approx(9, abs=0.5)


async def test_an_endpoint_that_is_not_there_is_unreachable() -> None:
    async with databricks_server() as server:
        gone = server.base_url
    credentials = credentials_for(
        Grant(url=f"{gone}/oidc/v1/token", client_id="c", client_secret=Secret("s"))
    )

    with pytest.raises(UpstreamUnreachable, match="dbx: no access token: the exchange failed"):
        await credentials.headers(ASK, by=soon())

    await credentials.aclose()


async def test_a_lifetime_may_be_text_or_missing() -> None:
    for said in ({"expires_in": "3600"}, {}, {"expires_in": None}):
        async with databricks_server() as server:
            server.fail_tokens(200, {"access_token": server.key, **said})
            async with authorized(server) as transport:
                assert (await ask(transport))[0] == 200


async def test_the_secret_is_in_no_log_error_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    """Not even where the endpoint repeats what it was sent, in any of its spellings."""
    caplog.set_level(logging.DEBUG)
    said: list[str] = []

    async def echo(request: Received, answer: Answer) -> None:
        sent = f"{request.headers.get('authorization')} and {request.body.decode()}"
        await answer.json({"error": "bad", "error_description": sent}, 401)

    async with provider(echo) as endpoint, databricks_server() as server:
        for auth in ("basic", "body"):
            url = endpoint.base_url.removesuffix("/v1")
            what = Grant(
                url=f"{url}/oidc/v1/token",
                client_id=server.client_id,
                client_secret=Secret(server.client_secret),
                auth="body" if auth == "body" else "basic",
            )
            credentials = credentials_for(what)
            with pytest.raises(UpstreamRefused) as caught:
                await credentials.headers(ASK, by=soon())
            said += [str(caught.value), repr(caught.value), repr(credentials), repr(what)]
            said.append(repr(caught.value.__cause__))
            await credentials.aclose()
    basic = endpoint.requests[0].headers["authorization"].removeprefix("Basic ")
    posted = endpoint.requests[1].body.decode().partition("client_secret=")[2]

    assert posted
    for text in (*said, *caplog.messages):
        for secret in (server.client_secret, basic, posted):
            assert secret not in text
    assert "***" in said[0]


async def test_a_token_that_the_provider_repeats_in_an_error_is_not_shown() -> None:
    async def echo(request: Received, answer: Answer) -> None:
        await answer.json({"message": f"bad {request.headers['authorization']}"}, 403)

    async with databricks_server() as server, provider(echo) as vendor:
        transport = AuthorizedTransport(
            WireTransport(vendor.base_url.removesuffix("/v1"), name="dbx", max_connections=2),
            credentials_for(grant(server)),
        )
        status, body = await ask(transport)
        await transport.aclose()

    assert status == 403
    assert server.issued[0].encode() not in body
    assert b"***" in body


async def test_an_error_that_is_too_long_to_read_gives_its_connection_back() -> None:
    async with databricks_server() as server:
        transport = AuthorizedTransport(
            WireTransport(server.base_url, name="dbx", max_connections=1),
            credentials_for(grant(server)),
        )
        server.fail(500, "INTERNAL_ERROR", "x" * 3_000_000)
        failed, _ = await ask(transport)

        status, _ = await ask(transport)
        await transport.aclose()

    assert (failed, status) == (500, 200)


async def test_closing_ends_a_fetch_and_the_requests_that_wait_for_it() -> None:
    async with databricks_server() as server:
        async with authorized(server) as transport:
            server.token_delay_s = 5.0
            waiting = asyncio.create_task(ask(transport))
            await asyncio.sleep(0.05)

        with pytest.raises(Unavailable, match="are being closed"):
            await waiting
        with pytest.raises(Unavailable, match="are being closed"):
            await ask(transport)

    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if "AutoRefresh" in repr(task)]


def test_headers_of_the_credentials_take_the_place_of_the_adapters() -> None:
    given = (("Authorization", "Bearer key"), ("x-a", "1"))

    signed = with_headers(
        Outbound(target="/", headers=given, body=b""),
        (("authorization", "Bearer token"), ("x-date", "now")),
    )

    assert signed.headers == (
        ("x-a", "1"),
        ("authorization", "Bearer token"),
        ("x-date", "now"),
    )
