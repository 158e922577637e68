"""Tokens of Entra ID from machines, federation and the CLI, without a secret in the gateway."""

import asyncio
import json
import os
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.backends.upstream.credentials.base import Credentials, Headers
from strowger_gateway.gateway.backends.upstream.credentials.factory import credentials_of
from strowger_gateway.gateway.config.schema.config import Provider as Configured
from strowger_gateway.gateway.config.schema.connection import Azure, Timeouts, Tls
from strowger_gateway.schemas.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from tests.gateway.backends.upstream.wire.test_certificates import server_context
from tests.stand_ins.doubles import Peer, raw_server, sized
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nowhere")]

ASK = Outbound(target="/", headers=(), body=b"")
RESOURCE = "https://cognitiveservices.azure.com"
TENANT = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says nothing of an identity."""
    names = ("AZURE_", "IDENTITY_", "MSI_", "IMDS_")
    for name in [name for name in os.environ if name.startswith(names)]:
        monkeypatch.delenv(name)


def credentials(azure: Azure, *, tls: Tls | None = None) -> Credentials:
    configured = Configured(
        name="azure",
        adapter="azure",
        azure=azure,
        timeouts=Timeouts(connect_s=1),
        tls=tls or Tls(),
    )
    found = credentials_of(configured, "https://acme.openai.azure.com/openai/v1", Registry(()))
    assert found is not None
    return found


async def headers(of: Credentials) -> Headers:
    return await of.headers(ASK, by=asyncio.get_running_loop().time() + 10)


def bearer(token: str) -> Headers:
    return (("authorization", f"Bearer {token}"),)


def query(request: Received) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


class Machine:
    """A metadata service, of a virtual machine or of App Service. down: its next answers."""

    def __init__(self) -> None:
        self.issued = 0
        self.down: list[tuple[int, dict[str, object]]] = []

    async def __call__(self, request: Received, answer: Answer) -> None:
        if self.down:
            status, body = self.down.pop(0)
            await answer.json(body, status, {"retry-after": "3"})
            return
        self.issued += 1
        expires = {"expires_in": "3600", "expires_on": str(int(time.time()) + 3600)}
        token = {"access_token": f"token-{self.issued}", "token_type": "Bearer"}
        await answer.json({**token, **expires, "resource": RESOURCE})


async def test_a_virtual_machines_identity_gives_one_token_for_fifty_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with provider(Machine()) as imds:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", imds.origin)
        of = credentials(Azure())
        found = await asyncio.gather(*(headers(of) for _ in range(50)))
        await of.aclose()

    assert set(found) == {bearer("token-1")}
    [request] = imds.requests
    assert request.path.startswith("/metadata/identity/oauth2/token?")
    assert request.headers["metadata"] == "true"
    assert query(request)["resource"] == RESOURCE
    assert "client_id" not in query(request)


async def test_a_token_that_azure_does_not_accept_is_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with provider(Machine()) as imds:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", imds.origin)
        of = credentials(Azure(client_id="of-the-user", scope="https://other.test/.default"))
        first = await headers(of)
        forbidden = of.rejected(first, 403, b"{}")
        again = of.rejected(first, 401, b"{}")
        second = await headers(of)
        await of.aclose()

    assert (forbidden, again) == (False, True)
    assert (first, second) == (bearer("token-1"), bearer("token-2"))
    assert query(imds.requests[-1])["client_id"] == "of-the-user"
    assert query(imds.requests[-1])["resource"] == "https://other.test"


async def test_an_app_services_identity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async with provider(Machine()) as service:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{service.origin}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "of-the-platform")
        of = credentials(Azure())
        found = await headers(of)
        await of.aclose()

    assert found == bearer("token-1")
    [request] = service.requests
    assert request.path.startswith("/msi/token?")
    assert request.headers["x-identity-header"] == "of-the-platform"


@pytest.mark.parametrize(
    ("status", "body", "kind", "reported"),
    [
        (500, {}, UpstreamUnreachable, "the service answered 500"),
        (429, {}, UpstreamUnreachable, "the service answered 429"),
        (
            400,
            {"error": "invalid_request", "error_description": "Identity not found"},
            UpstreamRefused,
            "Identity not found",
        ),
    ],
)
async def test_the_reason_why_a_machine_gives_no_token_is_reported_after_one_call(
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    body: dict[str, object],
    kind: type[UpstreamError],
    reported: str,
) -> None:
    machine = Machine()
    machine.down = [(status, body)] * 9
    async with provider(machine) as imds:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", imds.origin)
        of = credentials(Azure())
        with pytest.raises(kind, match=f"azure: no access token: .*{reported}") as caught:
            await headers(of)
        await of.aclose()

    assert len(imds.requests) == 1
    if kind is UpstreamUnreachable:
        assert caught.value.retry_after == pytest.approx(3, abs=0.5)


async def test_a_workload_sends_the_current_token_of_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, file = trustme.CA(), tmp_path / "token"
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    file.write_text("of-kubernetes-1")
    async with raw_server(
        entra, tls=server_context(authority, "localhost"), host="localhost"
    ) as login:
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", login.base_url)
        azure = Azure(identity="workload", client_id="app", tenant_id=TENANT, token_file=str(file))
        of = credentials(azure, tls=Tls(ca_file=str(tmp_path / "ca.pem")))
        first = await headers(of)
        file.write_text("of-kubernetes-2")
        of.rejected(first, 401, b"")
        second = await headers(of)
        await of.aclose()

    assert (first, second) == (
        bearer("for-of-kubernetes-1"),
        bearer("for-of-kubernetes-2"),
    )
    form = parse_qs(login.requests[-1].body.decode())
    assert login.requests[-1].path == f"/{TENANT}/oauth2/v2.0/token"
    assert form["grant_type"] == ["client_credentials"]
    assert form["client_id"] == ["app"]
    assert form["scope"] == [f"{RESOURCE}/.default"]
    assert form["client_assertion_type"] == [
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    ]


async def entra(peer: Peer) -> None:
    """A tenant's endpoints: where they are, and tokens that name what was shown for them."""
    while True:
        request = await peer.request()
        host = f"https://{request.headers['host']}/{TENANT}"
        if request.method == "GET":
            answer: dict[str, object] = {
                "issuer": f"{host}/v2.0",
                "authorization_endpoint": f"{host}/oauth2/v2.0/authorize",
                "token_endpoint": f"{host}/oauth2/v2.0/token",
            }
        else:
            shown = parse_qs(request.body.decode())["client_assertion"][0]
            answer = {"access_token": f"for-{shown}", "expires_in": 3600, "token_type": "Bearer"}
        await peer.send(
            sized(json.dumps(answer).encode(), "200 OK", "content-type: application/json")
        )


async def test_a_workload_that_lacks_its_settings_is_an_operators_error() -> None:
    of = credentials(Azure(identity="workload", client_id="app"))

    with pytest.raises(UpstreamRefused, match="'tenant_id', 'token_file_path'"):
        await headers(of)

    await of.aclose()


async def test_the_token_comes_from_the_login_of_the_cli(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer = {"accessToken": "of-the-cli", "expires_on": int(time.time()) + 3600}
    (tmp_path / "az").write_text(
        f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\necho '{json.dumps(answer)}'\n"
    )
    (tmp_path / "az").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    of = credentials(Azure(identity="cli", tenant_id=TENANT))

    found = await headers(of)

    await of.aclose()
    assert found == bearer("of-the-cli")
    asked = (tmp_path / "asked").read_text()
    assert f"--tenant {TENANT}" in asked
    assert f"{RESOURCE}" in asked


async def test_a_missing_cli_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    of = credentials(Azure(identity="cli"))

    with pytest.raises(UpstreamRefused, match="azure: no access token: Azure CLI not found"):
        await headers(of)

    await of.aclose()
