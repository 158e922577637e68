"""Google credentials are found where Google's tools find them: files, programs, machines."""

import json
import os
from pathlib import Path

import pytest
import trustme

from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.backends.upstream.credentials.factory import credentials_of
from strowger_gateway.gateway.config.schema.config import Provider as Configured
from strowger_gateway.gateway.config.schema.connection import Google, Tls
from strowger_gateway.schemas.errors import UpstreamRefused
from strowger_gateway.schemas.secret import Secret
from tests.gateway.backends.upstream.asking_vertex import ASK, ask, soon, vertex
from tests.gateway.backends.upstream.wire.test_certificates import server_context
from tests.stand_ins.doubles import Peer, answering, raw_server, sized
from tests.stand_ins.google_cloud import (
    ACCOUNT,
    SCOPE,
    VERTEX,
    GoogleCloud,
    claims_of,
    service_account,
    written,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without credentials and without a metadata server."""
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "GCLOUD_", "GCE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", True)


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
    """For such a file the library calls only oauth2.googleapis.com."""
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
async def test_a_workloads_own_token_is_exchanged_and_read_again_each_time(tmp_path: Path) -> None:
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
async def test_a_workload_may_impersonate_a_service_account(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    (tmp_path / "token").write_text("of-kubernetes")
    async with provider(cloud) as server:
        acting = f"{server.origin}/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken"
        federation = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/p",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{server.origin}/sts",
            "service_account_impersonation_url": acting,
            "credential_source": {"file": str(tmp_path / "token")},
        }
        file = written(tmp_path, federation)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            statuses = [await ask(transport) for _ in range(2)]

    assert statuses == [200, 200]
    assert cloud.issued == ["ya29.token-1", "ya29.token-2"]
    assert server.requests[-1].headers["authorization"] == "Bearer ya29.token-2"


@pytest.mark.usefixtures("nowhere")
async def test_a_program_may_give_the_workloads_own_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")
    kind = "urn:ietf:params:oauth:token-type:jwt"
    said = {"version": 1, "success": True, "token_type": kind, "id_token": "of-the-program"}
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(said)}'\n")
    program.chmod(0o755)
    cloud = GoogleCloud()
    async with provider(cloud) as server:
        federation = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/p",
            "subject_token_type": kind,
            "token_url": f"{server.origin}/sts",
            "credential_source": {"executable": {"command": str(program), "timeout_millis": 5000}},
        }
        file = written(tmp_path, federation)
        async with vertex(server, Google(credentials_file=str(file))) as transport:
            status = await ask(transport)

    assert status == 200
    assert cloud.grants[0]["subject_token"] == "of-the-program"


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
async def test_missing_credentials_are_an_operators_error() -> None:
    async with provider(GoogleCloud()) as server:
        async with vertex(server, Google()) as transport:
            with pytest.raises(UpstreamRefused, match="vertex: no access token: Your default cred"):
                await ask(transport)

    assert not server.requests
