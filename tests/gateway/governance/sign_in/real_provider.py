"""A gateway as a command, and an identity provider that others wrote, each in its own process."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
from msgspec import Struct

from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked
from tests.stand_ins.ports.reserved import reserved_port

PEOPLE = (
    {"sub": "u-1", "email": "ann@example.com", "email_verified": True, "realm": {"roles": ["sre"]}},
    {"sub": "u-2", "preferred_username": "bob", "realm": {"roles": ["staff", "x"]}},
    {"sub": "u-3", "preferred_username": "eve", "realm": {"roles": ["sales"]}},
)
CONFIG = """
server: {{workers: {workers}, drain_delay_s: 0}}
store: {{url: "sqlite:///{store}", spool: "{spool}"}}
auth:
  mode: keys
  admin_key: key-of-the-operator
  admin_oidc:
    name: Mock
    issuer: {issuer}
    client_id: {client_id}
    client_secret: "{client_secret}"
    public_url: {public_url}
    role_claim: realm.roles
    roles: {{sre: admin, staff: viewer}}
providers: [{{name: p, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}}]
models: [{{name: chat, backends: [{{provider: p, model: m}}]}}]
"""


class Client(Struct, frozen=True, kw_only=True):
    """https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1"""

    client_id: str
    client_secret: str


class RealProvider(Struct, frozen=True, kw_only=True):
    """url: its issuer."""

    url: str

    async def register(self, public_url: str) -> Client:
        """Register a gateway as a confidential client, whose secret the provider checks."""
        body = {"redirect_uris": [f"{public_url}/admin/sign-in/callback"]}
        async with httpx.AsyncClient(base_url=self.url, timeout=SOON_S) as client:
            answer = await client.post("/oauth2/clients", json=body)
        return msgspec.json.decode(answer.content, type=Client)

    async def let_in(self, authorization_url: str, sub: str) -> str:
        """Fill in the provider's form; return where it sends the browser."""
        async with httpx.AsyncClient(timeout=SOON_S) as client:
            form = await client.get(authorization_url)
            assert form.status_code == 200
            answer = await client.post(authorization_url, data={"sub": sub})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]


@asynccontextmanager
async def real_provider() -> AsyncGenerator[RealProvider, None]:
    """oidc-provider-mock, on Authlib: https://pypi.org/project/oidc-provider-mock/"""
    port = reserved_port()
    people = [word for one in PEOPLE for word in ("--user-claims", msgspec.json.encode(one))]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "oidc_provider_mock", "--port", str(port)),
        *("--require-nonce", "true", "--require-registration", "true", *people),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    found = RealProvider(url=f"http://127.0.0.1:{port}")
    try:
        async with (
            asyncio.timeout(SOON_S),
            httpx.AsyncClient(base_url=found.url, timeout=60) as client,
        ):
            while not await _answers(client):  # noqa: ASYNC110  another process decides
                await asyncio.sleep(0.1)
        yield found
    finally:
        process.kill()
        await process.wait()


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/.well-known/openid-configuration")).status_code == 200
    except httpx.TransportError:
        return False


class Settings(Struct, frozen=True, kw_only=True):
    """What the gateways of one public address share. store: their database."""

    issuer: str
    client: Client
    public_url: str
    store: Path

    @asynccontextmanager
    async def gateway(
        self, folder: Path, *, port: int = 0, workers: int = 1
    ) -> AsyncGenerator[Commanded, None]:
        """folder: of this gateway alone. port: 0 is any."""
        folder.mkdir(exist_ok=True)  # noqa: ASYNC240  at the start of a test
        text = CONFIG.format(
            workers=workers,
            store=self.store,
            spool=folder / "spool",
            issuer=self.issuer,
            client_id=self.client.client_id,
            client_secret=self.client.client_secret,
            public_url=self.public_url,
        )
        async with forked(folder / "config.yaml", text, "--port", str(port)) as up:
            yield up


async def settings_for(provider: RealProvider, port: int, folder: Path) -> Settings:
    """Register gateways whose public address is this port of the machine."""
    public_url = f"http://127.0.0.1:{port}"
    return Settings(
        issuer=provider.url,
        client=await provider.register(public_url),
        public_url=public_url,
        store=folder / "shared.db",
    )
