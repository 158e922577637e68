"""Certificates that are replaced while `strowger serve` runs, and what operators see of it."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.gateway.certificates import Issued
from tests.gateway.cli.command_line import run
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.server.http1.front import get
from tests.gateway.server.http1.wire import PROBE, dial
from tests.gateway.serving import one_model

pytestmark = pytest.mark.anyio

SETTINGS = """
auth: {{admin_key: key-of-the-operator}}
server: {{drain_delay_s: 0, workers: {workers}, tls: {{cert: live/tls.crt, key: live/tls.key}}}}
"""


class Volume:
    """A folder of certificates as Kubernetes mounts a secret: links to links to files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self._count = 0
        for name in ("tls.crt", "tls.key"):
            (folder / "live").mkdir(exist_ok=True)
            (folder / "live" / name).symlink_to(Path("..data") / name)
        self.current = self.renew()

    def renew(self, *, broken: bool = False) -> Issued:
        """Replace certificate and key in one step. broken: with a key of another certificate."""
        self._count += 1
        folder = self.folder / "live" / f"..{self._count}"
        folder.mkdir()
        issued = Issued.to(folder, "127.0.0.1", authority=self.authority)
        issued.cert.rename(folder / "tls.crt")
        issued.key.rename(folder / "tls.key")
        if broken:
            other = Issued.to(folder, "127.0.0.1", authority=self.authority)
            other.key.rename(folder / "tls.key")
        link = self.folder / "live" / "..new"
        link.symlink_to(folder.name)
        link.replace(self.folder / "live" / "..data")
        return Issued(cert=folder / "tls.crt", key=folder / "tls.key", ca=issued.ca)


def serial(pem: bytes) -> int:
    return x509.load_pem_x509_certificate(pem).serial_number


async def shown(up: Commanded, volume: Volume) -> tuple[int, int]:
    """The serial number of the certificate on a new connection, and the worker that answers it."""
    context = volume.current.client_context()
    host, _, port = up.url.removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.write(PROBE)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
    body = await reader.readexactly(length)
    writer.close()
    worker = int(body.partition(b'"worker":')[2].partition(b",")[0])
    return x509.load_der_x509_certificate(found).serial_number, worker


async def all_workers_show(up: Commanded, volume: Volume, issued: Issued) -> None:
    """Wait until both workers use this certificate for new connections."""
    wanted = serial(issued.cert.read_bytes())
    seen: set[int] = set()
    async with asyncio.timeout(SOON_S):
        while len(seen) < 2:
            number, worker = await shown(up, volume)
            seen = {*seen, worker} if number == wanted else set[int]()


async def test_a_renewed_certificate_is_used_by_all_workers_and_old_connections_go_on(
    tmp_path: Path,
) -> None:
    volume = Volume(tmp_path)
    text = one_model("http://127.0.0.1:9", SETTINGS.format(workers=2))
    async with forked(tmp_path / "config.yaml", text) as up:
        old = await dial(up.url, context=volume.current.client_context())
        assert await old.kept()
        await all_workers_show(up, volume, volume.current)

        renewed = volume.renew()

        await up.said("new connections use the certificate")
        await all_workers_show(up, volume, renewed)
        assert await old.kept()

        volume.renew(broken=True)
        await up.said("keeping the previous ones", "server.tls.key: does not belong to the")
        await all_workers_show(up, volume, renewed)
        await old.send(get("/metrics", "authorization: Bearer key-of-the-operator\r\n"))
        metrics = (await old.reply()).body.decode()
        until = x509.load_pem_x509_certificate(renewed.cert.read_bytes()).not_valid_after_utc
        name = "strowger_tls_certificate_expiry_timestamp_seconds"
        (expiry,) = [line for line in metrics.splitlines() if line.startswith(f"{name}{{")]
        assert "strowger_tls_files_refused 1.0" in metrics
        assert float(expiry.rpartition(" ")[2]) == pytest.approx(until.timestamp(), abs=1)

        # A worker that starts while the files are broken gets those in effect.
        since = len(up.lines)
        await old.send(PROBE)
        pid = int((await old.reply()).body.partition(b'"pid":')[2].rstrip(b"}"))
        os.kill(pid, signal.SIGKILL)
        await up.said("restarting in", since=since)
        await all_workers_show(up, volume, renewed)
        old.close()


async def test_files_that_are_broken_at_the_start_are_named(tmp_path: Path) -> None:
    volume = Volume(tmp_path)
    volume.renew(broken=True)
    config = tmp_path / "config.yaml"
    config.write_text(one_model("http://127.0.0.1:9", SETTINGS.format(workers=1)))
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "strowger_gateway.gateway.cli",
            "serve",
            "--config",
            str(config),
            "--port",
            "0",
        ),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()

    assert process.returncode == 1
    assert b"server.tls.key: does not belong to the certificate in server.tls.cert" in errors


async def test_commands_talk_to_a_gateway_that_requires_client_certificates(tmp_path: Path) -> None:
    volume = Volume(tmp_path)
    own = Issued.to(tmp_path, "ops.example.com", authority=volume.authority, stem="ops")
    server = SETTINGS.format(workers=1).replace("tls.key}", f"tls.key, client_ca: {own.ca}}}")
    async with forked(tmp_path / "config.yaml", one_model("http://127.0.0.1:9", server)) as up:
        port = up.url.rpartition(":")[2]
        # As an operator who uses the same file: no authority is named.
        text = up.config.read_text().replace("workers: 1", f"workers: 1, port: {port}")
        (tmp_path / "same.yaml").write_text(text)
        key = {"STROWGER_ADMIN_KEY": "key-of-the-operator"}
        given = ("--client-cert", str(own.cert), "--client-key", str(own.key))

        def command(*words: str, typed: str = "") -> tuple[int, str]:
            result = run(*words, env=key, typed=typed)
            return result.exit_code, result.output

        chat = ("chat", "--config", str(tmp_path / "same.yaml"))
        routes = ("routes", "--url", up.url)
        done = await asyncio.to_thread(command, *routes, "--ca-file", str(own.ca), *given)
        unknown = await asyncio.to_thread(command, *routes, *given)
        asked = await asyncio.to_thread(command, *chat, "chat", *given, typed="hi")
        without = await asyncio.to_thread(command, *routes, "--ca-file", str(own.ca))

    assert done[0] == 0, done
    assert "remote/m-1" in done[1]
    assert unknown[0] == 1
    assert "certificate" in unknown[1]
    assert "--ca-file" in unknown[1]
    assert without[0] == 1
    assert "give --client-cert" in without[1]
    # The gateway was reached, and has answered that its provider is not there.
    assert "502" in asked[1]


def test_check_says_what_is_wrong_with_the_files(tmp_path: Path) -> None:
    authority = trustme.CA()
    good = Issued.to(tmp_path, "a.example", authority=authority)
    soon = Issued.to(tmp_path, "a.example", authority=authority, stem="soon", days=3.5)
    old = Issued.to(tmp_path, "a.example", authority=authority, stem="old", days=-3)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(_encrypted(good.key.read_bytes(), b"pass-word-of-the-key"))

    def checked(settings: str) -> str:
        config = tmp_path / "config.yaml"
        config.write_text(one_model("http://127.0.0.1:9", f"server: {{tls: {{{settings}}}}}"))
        return run("check", str(config)).output

    assert "OK (1 provider" in checked(f"cert: {good.cert}, key: {good.key}")
    for settings, message in (
        ("cert: none.pem, key: none.key", "server.tls.cert: no such file or folder: "),
        (f"cert: {good.cert}", "server.tls.key: is missing, and"),
        (f"cert: {good.key}, key: {good.key}", "server.tls.cert: "),
        (f"cert: {good.cert}, key: {good.cert}", "has no PEM private key"),
        (f"cert: {good.cert}, key: {soon.key}", "server.tls.key: does not belong to"),
        (f"cert: {good.cert}, key: {encrypted}", "is encrypted; set server.tls.key_password"),
        (
            f"cert: {good.cert}, key: {encrypted}, key_password: wrong-pass-word",
            "server.tls.key_password: does not decrypt",
        ),
        (f"cert: {good.cert}, key: {good.key}, client_ca: {good.cert}", "no client is valid"),
        (f"cert: {soon.cert}, key: {soon.key}", "in 3 days; renew it"),
        (f"cert: {old.cert}, key: {old.key}", "expired at"),
        (
            f"cert: {good.cert}, key: {good.key}, client_certificates: optional",
            "server.tls.client_certificates: has no effect without client_ca",
        ),
        (
            f"cert: {good.cert}, key: {good.key}, key_password: needless-word",
            "server.tls.key_password: has no effect",
        ),
    ):
        found = checked(settings)
        assert message in found, settings
        assert "wrong-pass-word" not in found
    right = f"cert: {good.cert}, key: {encrypted}, key_password: pass-word-of-the-key"
    assert "OK (1 provider" in checked(right)


def _encrypted(key: bytes, password: bytes) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password),
    )
