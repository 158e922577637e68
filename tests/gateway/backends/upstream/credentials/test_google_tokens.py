"""Google tokens are requested with a signature, cached, replaced in time, and failures reported."""

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.schema.connection import Google
from strowger_gateway.schemas.errors import UpstreamRefused, UpstreamUnreachable
from tests.gateway.backends.upstream.asking_vertex import ask, vertex
from tests.stand_ins.doubles import SOON_S
from tests.stand_ins.google_cloud import (
    ACCOUNT,
    SCOPE,
    GoogleCloud,
    claims_of,
    service_account,
)
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio


async def test_a_service_account_signs_for_its_token(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            status = await ask(transport)

    assert status == 200
    [grant] = cloud.grants
    assert grant["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    header, claims = claims_of(grant["assertion"])
    issued, expires = claims["iat"], claims["exp"]
    assert (header["alg"], header["kid"]) == ("RS256", "key-1")
    assert (claims["iss"], claims["scope"]) == (ACCOUNT, SCOPE)
    assert claims["aud"] == "https://oauth2.googleapis.com/token"
    assert isinstance(issued, int)
    assert isinstance(expires, int)
    assert abs(issued - time.time()) < 60
    assert expires - issued == 3600


async def test_fifty_concurrent_requests_fetch_one_token(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            statuses = await asyncio.gather(*(ask(transport) for _ in range(50)))
            again = await ask(transport)

    assert {*statuses, again} == {200}
    assert len(cloud.grants) == 1


async def test_tokens_are_replaced_ahead_of_their_end_while_requests_go_on(tmp_path: Path) -> None:
    """On a busy machine a token may end while its successor is fetched; the next one shows it."""
    cloud, fetching, meanwhile = GoogleCloud(), False, asyncio.Event()
    cloud.lifetime_s = 1

    async def slowly(request: Received, answer: Answer) -> None:
        nonlocal fetching
        if request.path == "/token" and cloud.grants:
            fetching = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(meanwhile.wait(), 0.5)
            fetching = False
        await cloud(request, answer)

    async with provider(slowly) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            async with asyncio.timeout(SOON_S):
                while not meanwhile.is_set():
                    before = fetching
                    assert await ask(transport) == 200
                    if before and fetching:
                        meanwhile.set()
                    await asyncio.sleep(0.01)


async def test_a_token_that_vertex_does_not_accept_is_replaced_once(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            await ask(transport)
            cloud.revoked.update(cloud.issued)
            statuses = await asyncio.gather(*(ask(transport) for _ in range(20)))

    assert set(statuses) == {200}
    assert len(cloud.grants) == 2


async def test_scopes_and_the_project_that_is_charged_are_the_operators(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        google = Google(
            credentials_file=str(file), scopes=("https://a.test/x", "y"), quota_project="paying"
        )
        async with vertex(server, google) as transport:
            await ask(transport)
            cloud.revoked.update(cloud.issued)
            status = await ask(transport)

    assert status == 200
    assert claims_of(cloud.grants[0]["assertion"])[1]["scope"] == "https://a.test/x y"
    assert set(cloud.projects) == {"paying"}


@pytest.mark.parametrize(
    ("status", "body", "kind", "reported"),
    [
        (503, {}, UpstreamUnreachable, "no access token: the service answered 503"),
        (500, {"error": "internal_failure"}, UpstreamUnreachable, "the service answered 500"),
        (429, {}, UpstreamUnreachable, "the service answered 429"),
        (
            400,
            {"error": "invalid_grant", "error_description": "Invalid JWT Signature."},
            UpstreamRefused,
            "no access token: invalid_grant: Invalid JWT Signature.",
        ),
    ],
)
async def test_the_reason_for_a_missing_token_is_reported_after_one_call(
    tmp_path: Path, status: int, body: dict[str, object], kind: type[Exception], reported: str
) -> None:
    cloud = GoogleCloud()
    cloud.down = [(status, body, {"retry-after": "7"})] * 5
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            outcomes = await asyncio.gather(
                *(ask(transport) for _ in range(5)), return_exceptions=True
            )

    assert len(cloud.grants) == 1
    for outcome in outcomes:
        assert isinstance(outcome, kind)
        assert isinstance(outcome, UpstreamUnreachable | UpstreamRefused)
        assert outcome.logged.startswith("vertex: no access token: ")
        assert reported in outcome.logged
        if kind is UpstreamUnreachable:
            assert outcome.retry_after == pytest.approx(7, abs=0.5)


async def test_a_slow_token_endpoint_delays_no_other_request(tmp_path: Path) -> None:
    asked, on = asyncio.Event(), asyncio.Event()
    cloud = GoogleCloud()

    async def slow(request: Received, answer: Answer) -> None:
        if request.path == "/token":
            asked.set()
            await on.wait()
        await cloud(request, answer)

    async with provider(slow) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            impatient, patient = (asyncio.create_task(ask(transport)) for _ in range(2))
            await asked.wait()
            impatient.cancel()
            on.set()
            status = await patient

    assert status == 200
    assert len(cloud.grants) == 1


async def test_an_endpoint_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as gone:
        file = service_account(tmp_path, gone)
    async with provider(cloud) as server:
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            with pytest.raises(UpstreamUnreachable, match="the service is unreachable"):
                await ask(transport)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("[]", " is not a readable file of Google credentials"),
        ("{", " is not a readable file of Google credentials"),
        ('{"type": "something"}', ": type must be one of service_account, authorized_user"),
        ('{"type": "service_account"}', " is not a valid file of type 'service_account'"),
        ('{"type": "external_account"}', " is not a valid file of type 'external_account'"),
        (
            '{"type": "service_account", "client_email": "a", "token_uri": "http://127.0.0.1:1",'
            ' "private_key": "hunter2"}',
            " is not a valid file of type 'service_account'",
        ),
    ],
)
async def test_a_file_that_holds_no_credentials_is_named_and_not_shown(
    tmp_path: Path, text: str, reported: str
) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(text)
    async with provider(GoogleCloud()) as server:
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            with pytest.raises(UpstreamRefused) as caught:
                await ask(transport)

    assert f"{file}{reported}" in caught.value.logged
    assert "hunter2" not in caught.value.logged


async def test_a_key_that_was_exchanged_on_disk_counts_from_the_next_token_on(
    tmp_path: Path,
) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        whole = file.read_text()
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            await ask(transport)
            file.write_text(whole.replace('"key-1"', '"key-2"'))
            cloud.revoked.update(cloud.issued)
            await ask(transport)

    kids = [claims_of(grant["assertion"])[0]["kid"] for grant in cloud.grants]
    assert kids == ["key-1", "key-2"]


async def test_neither_the_key_nor_a_token_shows_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            await ask(transport)
            cloud.revoked.update(cloud.issued)
            await ask(transport)

    assert "credential rejected" in caplog.text
    assert "PRIVATE KEY" not in caplog.text
    assert "ya29" not in caplog.text
    assert cloud.grants[0]["assertion"] not in caplog.text
