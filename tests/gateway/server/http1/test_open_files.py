"""A gateway that may open 256 files, with more idle clients than that."""

import os
import resource
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from strowger_gateway.gateway.assembly.client_connections import connection_limits
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.server.open_files import client_room, file_warnings, reserved
from tests.gateway.commanded import commanded
from tests.gateway.server.http1.wire import Wire, dial
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

FILES: Final = 256
STRANGERS: Final = 400
CHAT: Final[Mapping[str, object]] = {
    "model": "chat",
    "messages": [{"role": "user", "content": "hi"}],
}
SETTINGS: Final = """
auth: {mode: keys, admin_key: key-of-the-operator, keys: [{name: client, key: key-of-a-client}]}
server: {drain_delay_s: 0}
"""
LOW = (
    "sh",
    "-c",
    f'ulimit -n {FILES}; exec "$@"',
    "sh",
    sys.executable,
    "-m",
    "strowger_gateway.gateway.cli",
)
OPERATOR: Final = {"authorization": "Bearer key-of-the-operator"}


@pytest.mark.parametrize(
    ("files", "settings", "most"),
    [
        (256, "", 96),
        (1024, "", 448),
        (4096, "", 1792),
        (20_000, "", 8192),
        (1 << 20, "max_in_flight: 100", 200),
        (1 << 20, "max_connections: 30000", 30_000),
        (1024, "max_connections: 30000", 448),
        (16, "", 4),
    ],
)
def test_clients_take_half_of_the_descriptors_at_most(files: int, settings: str, most: int) -> None:
    text = one_model("http://127.0.0.1:9/v1", f"server: {{{settings}}}")
    server = read_config(text, source="config.yaml", env={}).server
    limits = connection_limits(server, files)

    assert limits.most == most
    assert 2 * limits.most <= limits.files < limits.files + limits.spare < files


@pytest.mark.parametrize(
    ("files", "settings", "warned"),
    [
        (1024, "", True),
        (8192, "", True),
        (8704, "", False),
        (1024, "max_in_flight: 300", False),
        (1024, "max_in_flight: 300, max_connections: 1000", True),
    ],
)
def test_the_operator_reads_of_a_limit_that_is_too_low(
    files: int, settings: str, *, warned: bool
) -> None:
    """The one provider of this configuration keeps 512 connections at most."""
    text = one_model("http://127.0.0.1:9/v1", f"server: {{{settings}}}")
    found = list(file_warnings(read_config(text, source="config.yaml", env={}), files))

    assert bool(found) is warned
    assert all("LimitNOFILE" in one and f"{files:,} files" in one for one in found)


@contextmanager
def no_more_files() -> Generator[None]:
    """This process opens no further file within the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def configured(base_url: str, how: str) -> str:
    """Return a configuration whose provider is its own proxy, if any: it ignores hosts."""
    own = f"base_url: {base_url}"
    if how == "by name":  # the resolver opens files, too
        named = own.replace("127.0.0.1", "localhost")
        return one_model(base_url).replace(own, named)
    proxied = f"{own}\n    proxy: {base_url}" if how == "proxied" else own
    return one_model(base_url).replace(own, proxied)


@pytest.mark.parametrize("how", ["directly", "by name", "proxied"])
async def test_a_request_without_a_descriptor_says_nothing_about_its_backend(
    how: str, tmp_path: Path
) -> None:
    async with (
        provider() as remote,
        serving(configured(remote.base_url, how), tmp_path) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        assert (await client.get("/healthz")).is_success  # it has its connection
        with no_more_files():
            refused = [await client.post("/v1/chat/completions", json=CHAT) for _ in range(12)]
        served = await client.post("/v1/chat/completions", json=CHAT)

    assert {(one.status_code, one.headers["retry-after"]) for one in refused} == {(503, "1")}
    assert refused[0].json()["error"]["code"] == "connections_in_use"
    assert "no file descriptors (ulimit -n) left" in refused[0].json()["error"]["message"]
    assert served.is_success, "the circuit is closed, and nothing cools down"


async def test_idle_strangers_keep_no_client_no_reload_and_no_key_out(tmp_path: Path) -> None:
    async with provider() as remote:
        text = one_model(remote.base_url, SETTINGS)
        file = tmp_path / "config.yaml"
        async with commanded(file, text, command=LOW) as up, up.client() as kept:
            client = {"authorization": "Bearer key-of-a-client"}
            assert (await kept.post("/v1/chat/completions", json=CHAT, headers=client)).is_success
            warning = await up.said("may open 256 files")
            strangers: list[Wire] = [await dial(up.url) for _ in range(STRANGERS)]

            async with up.client() as new:
                assert (await new.get("/healthz")).is_success
                answer = await new.post("/v1/chat/completions", json=CHAT, headers=client)
                assert answer.is_success
                issued = await new.post("/admin/keys", json={"name": "k"}, headers=OPERATOR)
                assert issued.is_success, issued.text
                await up.reload(text.replace("name: chat", "name: other"))
                models = await kept.get("/v1/models", headers=client)
                metrics = (await new.get("/metrics", headers=OPERATOR)).text
            for one in strangers:
                one.close()

    assert [one["id"] for one in models.json()["data"]] == ["other"]
    assert "server.max_in_flight 4,096" in warning
    counts = {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in metrics.splitlines())
        if name.startswith(("strowger_open", "strowger_client_conn"))
    }
    assert counts["strowger_open_files_limit"] == FILES
    assert 0 < counts["strowger_open_files"] < FILES - reserved(FILES)
    assert 1 < counts["strowger_client_connections"] <= client_room(FILES)
    assert counts['strowger_client_connections_closed_total{why="stranger"}'] > STRANGERS / 2
    assert counts['strowger_client_connections_closed_total{why="idle"}'] == 0
