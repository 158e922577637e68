"""Clients that connect over TLS: which are accepted, with which certificate, and what they get."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import openai
import pytest
import trustme
from msgspec import Struct

from tests.gateway.certificates import Issued
from tests.gateway.server.http1.front import BODY, CHAT, post
from tests.gateway.server.http1.secured import secured
from tests.gateway.server.http1.wire import PATIENCE_S, Wire, dial
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

KEY = "sk-of-the-billing-service"
BOUND = "sk-of-the-bound-service"
KEYS = f"""
auth:
  mode: keys
  metrics: open
  keys:
    - {{name: billing, key: {KEY}}}
"""
REFUSED = (httpx.TransportError, ssl.SSLError)
BINDS = f"    - {{name: bound, key: {BOUND}, client_certificates: [billing.example.com]}}"


class Secured(Struct, frozen=True, kw_only=True):
    """A gateway that serves TLS. client, stranger: certificates of its authority, and another's.

    wires: they are closed at the end.
    """

    running: Serving
    server: Issued
    client: Issued
    stranger: Issued
    wires: list[Wire]

    async def dial(self, context: ssl.SSLContext | None = None) -> Wire:
        """Connect with TLS. Raises ssl.SSLError."""
        context = context or self.server.client_context()
        self.wires.append(await dial(self.running.url, context=context))
        return self.wires[-1]

    async def cleartext(self) -> Wire:
        """Connect without TLS."""
        self.wires.append(await dial(self.running.url))
        return self.wires[-1]

    async def handshakes(self, outcome: str) -> float:
        """How many there were with this outcome."""
        context = self.server.client_context(self.client)
        async with httpx.AsyncClient(verify=context, timeout=60) as client:
            text = (await client.get(f"{self.running.url}/metrics")).text
        (line,) = [
            line
            for line in text.splitlines()
            if line.startswith(f'strowger_tls_handshakes_total{{outcome="{outcome}"}}')
        ]
        return float(line.rpartition(" ")[2])


@asynccontextmanager
async def secured_gateway(folder: Path, more: str = "") -> AsyncGenerator[Secured, None]:
    """Serve TLS. more: of `server.tls`; CA stands for the authority's file."""
    authority = trustme.CA()
    server = Issued.to(folder, "127.0.0.1", authority=authority)
    client = Issued.to(
        folder, "billing.example.com", authority=authority, stem="client", subject="billing, inc"
    )
    (folder / "other").mkdir()
    stranger = Issued.to(folder / "other", "billing.example.com", stem="stranger")
    keys = KEYS + (BINDS if "client_ca" in more else "")
    more = more.replace("CA", str(server.ca))
    settings = (
        f"server: {{client_timeout_s: 0.3, tls: {{cert: {server.cert}, key: {server.key}{more}}}}}"
    )
    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url, f"{settings}\n{keys}"), folder) as running,
    ):
        gateway = Secured(
            running=running, server=server, client=client, stranger=stranger, wires=[]
        )
        yield gateway
        for wire in gateway.wires:
            wire.close()


def headers(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_openais_client_talks_to_it_with_the_authoritys_file(tmp_path: Path) -> None:
    async with secured_gateway(tmp_path) as gateway:
        context = gateway.server.client_context()
        async with openai.AsyncOpenAI(
            base_url=f"{gateway.running.url}/v1",
            api_key=KEY,
            http_client=openai.DefaultAsyncHttpxClient(verify=context),
            max_retries=0,
        ) as client:
            whole = await client.chat.completions.create(
                model="chat", messages=[{"role": "user", "content": "hi"}]
            )
            stream = await client.chat.completions.create(
                model="chat", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert whole.choices[0].message.content == text != ""


async def test_a_client_that_does_not_know_the_authority_refuses_the_gateway(
    tmp_path: Path,
) -> None:
    async with secured_gateway(tmp_path) as gateway:
        with pytest.raises(ssl.SSLCertVerificationError):
            await gateway.dial(ssl.create_default_context())

        assert await gateway.handshakes("client_alert") == 1


async def test_http_without_tls_is_answered_with_what_to_do(tmp_path: Path) -> None:
    async with secured_gateway(tmp_path) as gateway:
        wire = await gateway.cleartext()
        await wire.send(post(BODY))

        reply = await wire.reply()

        assert (reply.status, reply.body) == (
            400,
            b"this port serves HTTPS; use https:// in the URL",
        )
        assert await wire.ended()
        assert await gateway.handshakes("cleartext") == 1


async def test_what_is_neither_tls_nor_http_is_closed_without_an_answer(tmp_path: Path) -> None:
    async with secured_gateway(tmp_path) as gateway:
        wire = await gateway.cleartext()
        await wire.send(b"SSH-2.0-OpenSSH_9.6\r\n")

        assert len(await wire.rest()) <= 7  # at most an alert
        assert await gateway.handshakes("not_tls") == 1


@pytest.mark.parametrize("pieces", [[], [b"\x16"], [b"\x16\x03\x01", b"\x02\x00", b"\x01"]])
async def test_a_handshake_that_does_not_go_on_is_cut_off(
    tmp_path: Path, pieces: list[bytes]
) -> None:
    async with secured_gateway(tmp_path) as gateway:
        wire = await gateway.cleartext()
        await wire.send(*pieces)

        assert await wire.ended()
        assert await gateway.handshakes("timeout") == 1


@pytest.mark.parametrize(
    ("minimum", "offered", "accepted"),
    [
        ("1.2", "TLSv1_1", False),
        ("1.2", "TLSv1_2", True),
        ("1.2", "TLSv1_3", True),
        ("1.3", "TLSv1_2", False),
        ("1.3", "TLSv1_3", True),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_versions_below_the_minimum_are_refused(
    tmp_path: Path, minimum: str, offered: str, accepted: bool
) -> None:
    async with secured_gateway(tmp_path, f', min_version: "{minimum}"') as gateway:
        context = gateway.server.client_context()
        context.minimum_version = context.maximum_version = ssl.TLSVersion[offered]
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        if accepted:
            wire = await gateway.dial(context)
            assert await wire.kept()
            return
        with pytest.raises(ssl.SSLError, match=r"(?i)alert protocol version"):
            await gateway.dial(context)

        assert await gateway.handshakes("protocol_version") == 1


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_required_client_certificates(tmp_path: Path, version: str) -> None:
    async with secured_gateway(tmp_path, ", client_ca: CA") as gateway:

        async def status(own: Issued | None) -> int:
            """Of an answer. Raises one of REFUSED if the client is refused."""
            context = gateway.server.client_context(own)
            context.maximum_version = ssl.TLSVersion[version]
            async with httpx.AsyncClient(
                verify=context, headers=headers(KEY), timeout=60
            ) as client:
                url = f"{gateway.running.url}/v1/chat/completions"
                return (await client.post(url, json=CHAT)).status_code

        # An alert, which says why, and not a reset, which says nothing.
        with pytest.raises(REFUSED, match=r"(?i)alert"):
            await status(None)
        with pytest.raises(REFUSED, match=r"(?i)alert unknown ca"):
            await status(gateway.stranger)
        assert await status(gateway.client) == 200
        (line,) = gateway.running.access_lines()
        assert line.client_certificate.startswith("CN=billing\\, inc,")
        assert await gateway.handshakes("no_client_certificate") == 1
        assert await gateway.handshakes("client_certificate_invalid") == 1


async def test_optional_client_certificates_must_be_valid_if_they_are_sent(tmp_path: Path) -> None:
    more = ", client_ca: CA, client_certificates: optional"
    async with secured_gateway(tmp_path, more) as gateway:
        without = await gateway.dial()
        assert await without.kept()
        context = gateway.server.client_context(gateway.stranger)
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # where the handshake itself fails
        with pytest.raises(ssl.SSLError, match=r"(?i)unknown ca"):
            await gateway.dial(context)


async def test_a_key_that_is_bound_to_a_certificate_is_refused_without_it(tmp_path: Path) -> None:
    more = ", client_ca: CA, client_certificates: optional"
    async with secured_gateway(tmp_path, more) as gateway:

        async def answer(own: Issued | None, key: str) -> httpx.Response:
            context = gateway.server.client_context(own)
            async with httpx.AsyncClient(verify=context, timeout=60) as client:
                url = f"{gateway.running.url}/v1/chat/completions"
                return await client.post(url, json=CHAT, headers=headers(key))

        assert (await answer(gateway.client, BOUND)).status_code == 200
        refused = await answer(None, BOUND)  # though the key was accepted a moment ago
        assert (await answer(None, KEY)).status_code == 200

    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "certificate_not_allowed"
    assert "client certificate" in refused.json()["error"]["message"]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_a_session_is_resumed_with_its_client_certificate(
    tmp_path: Path, version: str
) -> None:
    async with secured_gateway(tmp_path, ", client_ca: CA") as gateway:
        context = gateway.server.client_context(gateway.client)
        context.maximum_version = ssl.TLSVersion[version]

        def visit(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool, bytes]:
            """With blocking sockets, which alone let a client resume a session."""
            host, _, port = gateway.running.url.removeprefix("https://").partition(":")
            with (
                socket.create_connection((host, int(port)), PATIENCE_S) as tcp,
                context.wrap_socket(tcp, server_hostname=host, session=session) as tls,
            ):
                head = post(BODY, f"authorization: Bearer {BOUND}\r\nconnection: close\r\n")
                tls.sendall(head)
                read = b""
                while piece := tls.recv(65_536):
                    read += piece
                return tls.session, bool(tls.session_reused), read[9:12]

        session, first, status = await asyncio.to_thread(visit, None)
        _, second, again = await asyncio.to_thread(visit, session)

    assert (first, status) == (False, b"200")
    assert (second, again) == (True, b"200")


async def test_an_answer_leaves_in_one_record(tmp_path: Path) -> None:
    async with secured_gateway(tmp_path) as gateway:
        context = gateway.server.client_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose records show what they are
        host, _, port = gateway.running.url.removeprefix("https://").partition(":")
        raw, tcp = await asyncio.open_connection(host, int(port))
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(into, out, server_hostname=host)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                tcp.write(out.read())
                into.write(await raw.read(65_536))
        tcp.write(out.read())
        tls.write(post(BODY, f"authorization: Bearer {KEY}\r\n"))
        tcp.write(out.read())

        async with asyncio.timeout(PATIENCE_S):
            kind, _, _, high, low = await raw.readexactly(5)
            record = await raw.readexactly(high << 8 | low)
        into.write(bytes((kind, 3, 3, high, low)) + record)
        answer = tls.read(65_536)
        tcp.close()

    assert kind == 23  # application data
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"}")


async def test_a_client_that_sends_garbage_after_the_handshake_is_cut_off(tmp_path: Path) -> None:
    async with secured_gateway(tmp_path) as gateway:
        host, _, port = gateway.running.url.removeprefix("https://").partition(":")
        sock = socket.create_connection((host, int(port)))
        sock.setblocking(False)
        reader, writer = await secured(sock, gateway.server.client_context(), 65_536)
        writer.transport.write(b"\x17\x03\x03\x00\x20" + bytes(32))

        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with asyncio.timeout(PATIENCE_S):
                await reader.readexactly(1)
        writer.close()
        wire = await gateway.dial()
        assert await wire.kept()
