"""Pools of stand-in engines on TCP with mutual TLS, each of which can be ended alone."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trustme

from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls, TlsPaths
from tests.gateway.certificates import Issued
from tests.gateway.routing.failures.engine_stand_in import Conduct, StandIns, works


class Certificates:
    """One authority with a certificate for engines and one for gateways. folder: of the files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.engine = self.issue("127.0.0.1", "engine")
        self.gateway = self.issue("gateway-a", "gateway")

    def issue(self, name: str, stem: str, days: float = 90.0) -> Issued:
        return Issued.to(self.folder, name, authority=self.ca, stem=stem, subject=name, days=days)

    def server_context(self) -> ssl.SSLContext:
        paths = TlsPaths(
            cert=str(self.engine.cert), key=str(self.engine.key), ca=str(self.engine.ca)
        )
        return MutualTls(paths, server=True).context()

    def tls(self, issued: Issued | None = None) -> str:
        """`engines.tls`, as YAML. issued: the gateway's certificate."""
        own = self.gateway if issued is None else issued
        return f"{{cert: {own.cert}, key: {own.key}, ca: {own.ca}}}"


class Replica:
    """One engine. asked: what it was asked."""

    def __init__(self, engines: StandIns, server: asyncio.Server) -> None:
        self.engines = engines
        self._server = server
        self.port = int(server.sockets[0].getsockname()[1])

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def asked(self) -> int:
        return len(self.engines.asked)

    def close_port(self) -> None:
        """Accept no further connections."""
        self._server.close()

    def die(self) -> None:
        """As by kill -9: its port is closed and its connections are reset."""
        self.close_port()
        self.engines.stop()

    async def rise(self) -> None:
        """Listen again at the same port."""
        self._server = await self.engines.listen(port=self.port)


@asynccontextmanager
async def fleet(
    certificates: Certificates | None, *conducts: Conduct
) -> AsyncGenerator[list[Replica], None]:
    """Engines that behave as scripted, until the block ends. certificates: `None`: cleartext."""
    context = None if certificates is None else certificates.server_context()
    replicas: list[Replica] = []
    for conduct in conducts or (works, works):
        engines = StandIns(Path(), conduct, {})
        replicas.append(Replica(engines, await engines.listen(context)))
    try:
        yield replicas
    finally:
        for one in replicas:
            one.die()
        await asyncio.sleep(0)


def pool(hosts: list[str], tls: str = "", model_more: str = "", more: str = "") -> str:
    """A configuration whose model `chat` is on the provider `pool`."""
    listed = ", ".join(f'"{one}"' for one in hosts)
    secured = f", tls: {tls}" if tls else ""
    return f"""
providers:
  - name: pool
    adapter: local
    timeouts: {{connect_s: 20, first_token_s: 20, between_tokens_s: 20, total_s: 60}}
    engines: {{hosts: [{listed}]{secured}}}
models:
  - name: chat
    policy: least_busy
    retry: {{attempts: 3, backoff_s: 0.01, max_backoff_s: 0.05}}
    backends: [{{provider: pool, model: m}}]
{model_more}
{more}
"""
