"""providers[].oauth: the token endpoint's URL, proxy and certificates."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import trustme

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.backends.upstream.credentials.factory import credentials_of
from strowger_gateway.gateway.config.adapter_names import known_adapters
from strowger_gateway.gateway.config.schema.config import OAuth, Provider, Tls
from strowger_gateway.schemas.secret import Secret
from tests.gateway.backends.upstream.wire.test_certificates import server_context
from tests.stand_ins.doubles import answering, raw_server, sized
from tests.stand_ins.provider import Received

pytestmark = pytest.mark.anyio

ASK = Outbound(target="/", headers=(), body=b"")
TOKEN = sized(json.dumps({"access_token": "t-1", "expires_in": 3600}).encode())
EXAMPLE = OAuth(client_id="me", client_secret=Secret("s3cret"))


def configured(oauth: OAuth | None = EXAMPLE, *, adapter: str = "databricks") -> Provider:
    return Provider(name="dbx", adapter=adapter, oauth=oauth)


async def asked(provider: Provider, base_url: str) -> None:
    """Get headers once."""
    credentials = credentials_of(provider, base_url, Registry())
    assert credentials is not None
    try:
        assert await credentials.headers(ASK, by=asyncio.get_running_loop().time() + 5) == (
            ("authorization", "Bearer t-1"),
        )
    finally:
        await credentials.aclose()


def form(request: Received) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


def test_a_provider_without_oauth_has_no_own_credentials() -> None:
    assert credentials_of(configured(None), "https://dbc.test", Registry()) is None


@pytest.mark.parametrize("path", ["", "/serving-endpoints", "/ai-gateway/mlflow/v1"])
async def test_databricks_tokens_come_from_the_workspaces_own_endpoint(path: str) -> None:
    async with raw_server(answering(TOKEN)) as server:
        await asked(configured(), server.base_url + path)

    [request] = server.requests
    assert (request.method, request.path) == ("POST", "/oidc/v1/token")
    assert form(request) == {"grant_type": "client_credentials", "scope": "all-apis"}
    basic = b64encode(b"me:s3cret").decode()
    assert request.headers["authorization"] == f"Basic {basic}"


async def test_entras_tokens_come_from_where_the_tenant_is_and_are_for_azures_models() -> None:
    async with raw_server(answering(TOKEN)) as server:
        oauth = OAuth(
            client_id="me",
            client_secret=Secret("s3cret"),
            token_url=f"{server.base_url}/tenant-1/oauth2/v2.0/token",
        )
        await asked(configured(oauth, adapter="azure"), "https://acme.openai.azure.com/openai/v1")

    [request] = server.requests
    assert request.path == "/tenant-1/oauth2/v2.0/token"
    assert form(request)["scope"] == "https://cognitiveservices.azure.com/.default"


def test_only_an_endpoint_at_the_vendors_own_host_goes_without_saying() -> None:
    known = known_adapters()

    assert known["databricks"].tokens
    assert not known["azure"].tokens
    assert not known["openai"].tokens


async def test_the_configuration_may_name_endpoint_scope_and_place() -> None:
    async with raw_server(answering(TOKEN)) as server:
        oauth = OAuth(
            client_id="me",
            client_secret=Secret("a b&c"),
            token_url=f"{server.base_url}/tenant/token?api=2",
            scope="one two",
            client_auth="body",
        )
        await asked(configured(oauth, adapter="openai"), "https://elsewhere.test/v1")

    [request] = server.requests
    assert request.path == "/tenant/token?api=2"
    assert "authorization" not in request.headers
    assert form(request) == {
        "grant_type": "client_credentials",
        "scope": "one two",
        "client_id": "me",
        "client_secret": "a b&c",
    }


async def test_an_empty_scope_is_not_sent() -> None:
    async with raw_server(answering(TOKEN)) as server:
        oauth = OAuth(client_id="me", client_secret=Secret("s"), scope="")
        await asked(configured(oauth), server.base_url)

    assert form(server.requests[0]) == {"grant_type": "client_credentials"}


async def test_tokens_are_fetched_through_the_providers_proxy() -> None:
    async with raw_server(answering(TOKEN)) as proxy:
        through = proxy.base_url.replace("//", "//user:pass@")
        provider = Provider(name="dbx", adapter="databricks", oauth=EXAMPLE, proxy=Secret(through))
        await asked(provider, "http://dbc.example")

    [request] = proxy.requests
    assert request.path == "http://dbc.example/oidc/v1/token"
    assert "proxy-authorization" in request.headers


async def test_tokens_are_fetched_under_the_providers_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = server_context(authority, "localhost")
    async with raw_server(answering(TOKEN), tls=tls, host="localhost") as server:
        trusting = Provider(
            name="dbx",
            adapter="databricks",
            oauth=EXAMPLE,
            tls=Tls(ca_file=str(tmp_path / "ca.pem")),
        )
        await asked(trusting, server.base_url)

    assert len(server.requests) == 1
