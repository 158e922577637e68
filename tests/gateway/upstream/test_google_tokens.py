"""Google's tokens come from key files, federation and the machine, and are replaced in time."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from adapters.base import Outbound
from adapters.registry import Registry
from gateway.config.connection import Google, Timeouts, Tls
from gateway.config.model import Provider as Configured
from gateway.upstream.credentials.configured import credentials_of
from gateway.upstream.credentials.transport import AuthorizedTransport
from gateway.upstream.wire import WireTransport
from schemas.errors import UpstreamRefused, UpstreamUnreachable
from schemas.secret import Secret
from tests.doubles import Peer, answering, raw_server, sized
from tests.gateway.upstream.transports.test_certificates import server_context
from tests.google_cloud import (
    ACCOUNT,
    SCOPE,
    VERTEX,
    GoogleCloud,
    claims_of,
    service_account,
    written,
)
from tests.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

ASK = Outbound(
    target=f"{VERTEX}/models/gemini-2.5-flash:generateContent",
    headers=(("content-type", "application/json"),),
    body=b'{"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}',
)


def soon(seconds: float = 5.0) -> float:
    return asyncio.get_running_loop().time() + seconds


@asynccontextmanager
async def vertex(server: Provider, google: Google) -> AsyncGenerator[AuthorizedTransport]:
    configured = Configured(
        name="vertex", adapter="gemini", google=google, timeouts=Timeouts(connect_s=1)
    )
    credentials = credentials_of(configured, server.origin + VERTEX, Registry(()))
    assert credentials is not None
    transport = AuthorizedTransport(
        WireTransport(server.origin, name="vertex", max_connections=100), credentials
    )
    try:
        yield transport
    finally:
        await transport.aclose()


async def ask(transport: AuthorizedTransport) -> int:
    reply = await transport.exchange(ASK, connect_by=soon(2), head_by=soon())
    try:
        await reply.body(soon(), 10_000)
        return reply.status
    finally:
        await reply.aclose()


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without credentials, whose metadata server is nobody."""
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "GCLOUD_", "GCE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", True)


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


async def test_fifty_requests_at_once_fetch_one_token(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            statuses = await asyncio.gather(*(ask(transport) for _ in range(50)))
            again = await ask(transport)

    assert {*statuses, again} == {200}
    assert len(cloud.grants) == 1


async def test_tokens_are_replaced_ahead_of_their_end_while_requests_go_on(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    cloud.lifetime_s = 1
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            while len(cloud.issued) < 2:
                began = soon(0)
                assert await ask(transport) == 200
                assert soon(0) - began < 0.9

    assert len(cloud.grants) == 2


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
    ("status", "body", "kind", "told"),
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
async def test_why_there_is_no_token_is_said_after_one_call(
    tmp_path: Path, status: int, body: dict[str, object], kind: type[Exception], told: str
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
        assert outcome.message.startswith("vertex: no access token: ")
        assert told in outcome.message
        if kind is UpstreamUnreachable:
            assert outcome.retry_after == pytest.approx(7, abs=0.5)


async def test_a_slow_token_endpoint_holds_up_no_other_request(tmp_path: Path) -> None:
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
            with pytest.raises(UpstreamUnreachable, match="the service cannot be reached"):
                await ask(transport)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "cannot be read as a file of Google credentials"),
        ("{", "cannot be read as a file of Google credentials"),
        ('{"type": "something"}', "has none of the types service_account, authorized_user"),
        ('{"type": "service_account"}', "is no usable file of its type 'service_account'"),
        ('{"type": "external_account"}', "is no usable file of its type 'external_account'"),
        (
            '{"type": "service_account", "client_email": "a", "token_uri": "http://127.0.0.1:1",'
            ' "private_key": "hunter2"}',
            "is no usable file of its type 'service_account'",
        ),
    ],
)
async def test_a_file_that_holds_no_credentials_is_named_and_not_shown(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(text)
    async with provider(GoogleCloud()) as server:
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            with pytest.raises(UpstreamRefused) as caught:
                await ask(transport)

    assert f"{file} {told}" in caught.value.message
    assert "hunter2" not in caught.value.message


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


@pytest.mark.usefixtures("nowhere")
async def test_default_credentials_are_the_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        file = service_account(tmp_path, server)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        async with vertex(server, Google()) as transport:
            status = await ask(transport)

    assert status == 200
    assert claims_of(cloud.grants[0]["assertion"])[1]["iss"] == ACCOUNT


@pytest.mark.usefixtures("nowhere")
async def test_a_users_login_brings_the_project_that_is_charged(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        login = {
            "type": "external_account_authorized_user",
            "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/q",
            "client_id": "c",
            "client_secret": "s",
            "refresh_token": "r",
            "quota_project_id": "my-own",
            "token_url": f"{server.origin}/token",
        }
        file = written(tmp_path, login)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            status = await ask(transport)

    assert status == 200
    assert cloud.grants[0]["refresh_token"] == "r"
    assert cloud.projects == ["my-own"]


async def test_a_gcloud_login_is_renewed_at_google_through_the_providers_proxy(
    tmp_path: Path,
) -> None:
    """Of such a file the library asks nobody but oauth2.googleapis.com."""
    heads: list[bytes] = []

    async def tunnel(peer: Peer) -> None:
        heads.append(await peer.head())
        await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await peer.tunnel(google.port)

    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    login = {
        "type": "authorized_user",
        "client_id": "c",
        "client_secret": "s",
        "refresh_token": "r",
        "quota_project_id": "my-own",
    }
    token = sized(b'{"access_token": "ya29.user", "expires_in": 3600}')
    tls = server_context(authority, "oauth2.googleapis.com")
    async with raw_server(answering(token), tls=tls) as google, raw_server(tunnel) as proxy:
        configured = Configured(
            name="vertex",
            adapter="gemini",
            google=Google(credentials_file=str(written(tmp_path, login))),
            tls=Tls(ca_file=str(tmp_path / "ca.pem")),
            proxy=Secret(proxy.base_url),
        )
        credentials = credentials_of(configured, "https://vertex.test" + VERTEX, Registry(()))
        assert credentials is not None
        headers = await credentials.headers(ASK, by=soon())
        await credentials.aclose()

    assert headers == (("authorization", "Bearer ya29.user"), ("x-goog-user-project", "my-own"))
    assert heads[0].startswith(b"CONNECT oauth2.googleapis.com:443 ")
    assert b"refresh_token=r" in google.requests[0].body


@pytest.mark.usefixtures("nowhere")
async def test_a_workloads_own_token_is_exchanged_and_read_anew_each_time(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    own = tmp_path / "token"
    own.write_text("of-kubernetes-1")
    async with provider(cloud) as server:
        pool = (
            "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q"
        )
        federation = {
            "type": "external_account",
            "audience": pool,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{server.origin}/sts",
            "credential_source": {"file": str(own)},
        }
        file = written(tmp_path, federation)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            first = await ask(transport)
            own.write_text("of-kubernetes-2")
            cloud.revoked.update(cloud.issued)
            second = await ask(transport)

    assert (first, second) == (200, 200)
    assert [grant["subject_token"] for grant in cloud.grants] == [
        "of-kubernetes-1",
        "of-kubernetes-2",
    ]
    assert {(grant["audience"], grant["scope"]) for grant in cloud.grants} == {(pool, SCOPE)}


@pytest.mark.usefixtures("nowhere")
async def test_the_machines_own_account_is_found_by_its_metadata_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        host = server.origin.removeprefix("http://")
        monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", False)
        # google-auth reads GCE_METADATA_HOST once, when it is loaded.
        monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", host)
        monkeypatch.setenv("GCE_METADATA_IP", host)
        async with vertex(server, Google(quota_project="paying")) as transport:
            status = await ask(transport)

    assert status == 200
    assert len(cloud.issued) == 1
    assert cloud.projects == ["paying"]


@pytest.mark.usefixtures("nowhere")
async def test_no_credentials_at_all_is_the_operators_affair() -> None:
    async with provider(GoogleCloud()) as server:
        async with vertex(server, Google()) as transport:
            with pytest.raises(UpstreamRefused, match="vertex: no access token: Your default cred"):
                await ask(transport)

    assert not server.requests


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

    assert "a credential was rejected" in caplog.text
    assert "PRIVATE KEY" not in caplog.text
    assert "ya29" not in caplog.text
    assert cloud.grants[0]["assertion"] not in caplog.text
