"""`strowger health` says in one line whether a gateway is ready, and why not."""

import asyncio
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
from click.testing import Result

from tests.gateway.certificates import Issued
from tests.gateway.cli.command_line import run
from tests.gateway.commanded import Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

SLOW_TO_DRAIN = "\nserver: {drain_delay_s: 60}"


async def health(*words: str) -> Result:
    """Run the command with a time that a busy machine needs too, unless the words have another."""
    if "--timeout" not in words:
        words = *words, "--timeout", "60"
    return await asyncio.to_thread(run, "health", *words)


def with_port_of(up: Commanded, file: Path, text: str) -> str:
    """Write the configuration of a gateway as an operator has it: with its port."""
    port = up.url.rpartition(":")[2]
    file.write_text(text.replace("server: {", f"server: {{port: {port}, "))
    return str(file)


async def test_a_ready_gateway_is_healthy_by_url_and_by_configuration(tmp_path: Path) -> None:
    async with provider() as server:
        text = one_model(server.base_url, SLOW_TO_DRAIN)
        async with forked(tmp_path / "config.yaml", text) as up:
            config = with_port_of(up, tmp_path / "own.yaml", text)

            for words in (("--url", up.url), ("--config", config)):
                found = await health(*words)

                ready = re.escape(f"{up.url}: ready (configuration hash ")
                assert re.fullmatch(rf"{ready}[0-9a-f]{{12}}\)\n", found.output), found.output
                assert found.exit_code == 0


async def test_a_draining_gateway_is_not_ready(tmp_path: Path) -> None:
    async with provider() as server:
        text = one_model(server.base_url, SLOW_TO_DRAIN)
        async with forked(tmp_path / "config.yaml", text) as up:
            up.process.send_signal(signal.SIGTERM)
            await up.said("draining: not ready")

            found = await health("--url", up.url)

    assert (found.exit_code, found.output) == (1, f"{up.url}: not ready: draining\n")


async def test_a_gateway_that_rejected_its_file_is_ready_and_says_so(tmp_path: Path) -> None:
    async with provider() as server:
        async with forked(tmp_path / "config.yaml", one_model(server.base_url)) as up:
            up.edit("providers: []")
            await up.said("configuration")

            found = await health("--url", up.url)

    assert found.exit_code == 0
    assert found.output.startswith(f"{up.url}: ready (configuration: ")


async def test_a_certificate_of_the_configuration_is_trusted_and_of_another_not(
    tmp_path: Path,
) -> None:
    issued = Issued.to(tmp_path, "gateway.test")
    tls = f"\nserver: {{tls: {{cert: {issued.cert}, key: {issued.key}}}}}"
    async with provider() as server:
        text = one_model(server.base_url, tls)
        async with forked(tmp_path / "config.yaml", text) as up:
            config = with_port_of(up, tmp_path / "own.yaml", text)

            known = await health("--config", config)
            unknown = await health("--url", up.url)

    assert known.exit_code == 0
    assert known.output.startswith(f"{up.url}: ready")
    assert unknown.exit_code == 1
    assert "certificate verify failed" in unknown.output
    assert "--ca-file" in unknown.output


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", "the answer is not a gateway's"),
        (b"220 mail ready\r\n", "the answer is not HTTP"),
    ],
)
async def test_another_server_is_not_a_healthy_gateway(answer: bytes, words: str) -> None:
    async def answers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(answers, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        found = await health("--url", url)

    assert (found.exit_code, found.output.count("\n")) == (1, 1)
    assert found.output.startswith(url)
    assert words in found.output


async def test_a_server_that_is_silent_or_gone_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        silent = await health("--url", url, "--timeout", "0.2")
    gone = await health("--url", url)

    assert (silent.exit_code, silent.output) == (1, f"{url}: no answer within 0.2 s\n")
    assert (gone.exit_code, gone.output) == (1, f"{url}: cannot connect: Connection refused\n")


@pytest.mark.parametrize("url", ["gateway:8080", "ftp://gateway", "http://", "http://a:port"])
async def test_an_invalid_url_is_wrong_usage(url: str) -> None:
    found = await health("--url", url)

    assert found.exit_code == 2
    assert "--url" in found.output


async def test_a_faulty_configuration_is_reported_and_not_ready(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("providers: []\n")

    found = await health("--config", str(file))

    assert found.exit_code == 1
    assert "models" in found.output


async def test_it_loads_neither_the_event_loop_nor_the_adapters() -> None:
    code = (
        "import sys; from strowger_gateway.gateway.cli.health import health; "
        "health.main(['--url', 'http://127.0.0.1:9'], standalone_mode=False)"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-c", code),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()

    loaded = {line.rpartition(b"|")[2].strip() for line in errors.splitlines() if b"|" in line}
    assert b"http.client" in loaded
    assert not loaded & {
        b"asyncio",
        b"httpx",
        b"yaml",
        b"strowger_gateway.adapters.registry",
        b"strowger_gateway.gateway.config.load",
    }
