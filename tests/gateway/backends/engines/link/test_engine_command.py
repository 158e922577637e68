"""`strowger engine` and `strowger engines`, as operators run them."""

import asyncio
import signal
import socket
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.gateway.backends.engines.link.commanded_engine import commanded_engine
from tests.gateway.backends.engines.link.fleets import Certificates, pool
from tests.gateway.cli.command_line import run, table
from tests.gateway.commanded import SOON_S
from tests.gateway.routing.recovery.continuing import ask
from tests.gateway.serving import Serving, serving
from tests.gateway.shared_engine import SharedEngine

pytestmark = pytest.mark.anyio

ENGINE = "{device: cpu, dtype: float32, threads: 1, models: [{name: m, path: 'bundled:tiny-chat'}]}"
ADMIN = "auth: {admin_key: key-of-the-operator}"
SAMPLED = {"temperature": 1.3, "seed": 5, "max_tokens": 40}


async def listed(gateway: Serving, *more: str) -> str:
    """The output of `strowger engines`."""
    words = ("engines", "--url", gateway.url, "--admin-key", "key-of-the-operator", *more)
    return (await asyncio.to_thread(run, *words)).stdout


async def test_an_engine_answers_over_tcp_as_over_its_socket_and_is_listed(
    tmp_path: Path, engine: SharedEngine
) -> None:
    """Token for token: drawn, greedy, and after a SIGTERM in the middle of the answer."""
    certificates = Certificates(tmp_path)
    file = tmp_path / "engine.yaml"
    file.write_text(ENGINE)
    here = f"""
providers: [{engine.provider}]
models: [{{name: chat, backends: [{{provider: here, model: tiny}}]}}]
"""
    async with serving(here, tmp_path, engine=engine) as gateway:
        expected = [
            await ask(gateway.url, model="chat", **SAMPLED),
            await ask(gateway.url, model="chat", temperature=0),
        ]

    async with commanded_engine(certificates, str(file)) as remote:
        config = pool([remote.host], certificates.tls(), more=ADMIN)
        async with serving(config, tmp_path) as gateway:
            drawn = await ask(gateway.url, model="chat", **SAMPLED)
            shown = await listed(gateway)
            as_json = msgspec.json.decode(await listed(gateway, "--json"))
            leaving = asyncio.create_task(ask(gateway.url, model="chat", temperature=0))
            await busy(gateway)
            remote.process.send_signal(signal.SIGTERM)
            greedy = await leaving
            status = await asyncio.wait_for(remote.process.wait(), SOON_S)

    assert [(one.text, one.usage, one.error) for one in (drawn, greedy)] == [
        (one.text, one.usage, "") for one in expected
    ]
    assert status == 0
    (row,) = table(shown, "ENGINE")
    assert row[:4] == [f"pool@{remote.host}", socket.gethostname(), "cpu float32", "ready"]
    assert as_json["engines"][0]["address"] == remote.host
    assert as_json["engines"][0]["pid"] == remote.process.pid


async def busy(gateway: Serving) -> None:
    """Wait until the engine computes, or has computed, a second answer."""
    headers = {"authorization": "Bearer key-of-the-operator"}
    async with httpx.AsyncClient(timeout=SOON_S, headers=headers) as client:
        for _ in range(3000):
            found = (await client.get(f"{gateway.url}/admin/engines")).json()["engines"][0]
            if (
                found["models"]["m"]["running"]
                or found["models"]["m"]["time_to_first_token"]["count"] > 1
            ):
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--listen", "0.0.0.0:9000"), "requires mutual TLS; give --tls-cert"),
        (("--listen", "nowhere"), "is not HOST:PORT"),
        (("--listen", "127.0.0.1:9000", "--tls-cert", "x"), "--tls-key and --tls-ca missing"),
        (("--listen", "127.0.0.1:9000", "--tls-allow", "a"), "--tls-allow requires --tls-cert"),
    ],
)
async def test_a_wrong_address_or_half_of_tls_is_refused_with_the_remedy(
    words: tuple[str, ...], said: str
) -> None:
    """Before the imports of torch: these are checked by the command itself."""
    result = await asyncio.to_thread(run, "engine", "--model", "m=bundled:tiny-chat", *words)

    assert result.exit_code != 0
    assert said in result.output


async def test_a_file_with_faults_names_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "engine.yaml"
    file.write_text("{device: tpu, models: [{name: m}]}")

    result = await asyncio.to_thread(run, "engine", str(file), "--listen", "127.0.0.1:9000")

    assert result.exit_code == 1
    assert "device: expected one of" in result.output
    assert "models[0].path: is missing" in result.output
