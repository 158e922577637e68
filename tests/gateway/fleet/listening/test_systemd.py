"""systemd binds the sockets, so a restart refuses and resets nothing; it knows the service's state.

systemd is not run here. A stand-in passes sockets and variables as sd_listen_fds(3) says.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import cast

import pytest

from strowger_gateway.gateway.fleet.listening.systemd import activated, widest_address
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.commanded import Commanded, Running, Started, commanded
from tests.gateway.fleet.processes.restarts import CHAT, Client, Load, line_of, speaks
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{port: 1, drain_delay_s: 0.3, reload: signal}}
store: {{url: "sqlite:///{folder}/strowger.db"}}
auth: {{mode: keys, keys: [{{name: ci, key: k}}, {{name: limited, key: few}}]}}
limits: [{{name: few, who: {{key: limited}}, requests: 5, per: hour}}]
providers: [{{name: one, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, policy: in_order, backends: [{{provider: one, model: m}}]}}]
"""
AS_SYSTEMD = """
import os, sys
numbers = [int(one) for one in sys.argv[1].split(",")]
high = [os.dup2(number, 100 + at) for at, number in enumerate(numbers)]
for at, number in enumerate(high):
    os.dup2(number, 3 + at)
    os.close(number)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Systemd:
    """Two sockets, TCP and Unix, bound for a service; and what the service has reported."""

    def __init__(self, folder: Path) -> None:
        self.tcp = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.unix = socket.socket(socket.AF_UNIX)
        self.path = str(folder / "gateway.sock")
        self.unix.bind(self.path)
        self.unix.listen(1024)
        self._reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._reports.bind(str(folder / "notify"))
        self._reports.setblocking(False)
        self._folder = folder

    def close(self) -> None:
        for one in (self.tcp, self.unix, self._reports):
            one.close()

    def reported(self) -> list[str]:
        """The states since the last call."""
        found: list[str] = []
        while True:
            try:
                found.append(self._reports.recv(4096).decode())
            except BlockingIOError:
                return found

    async def _start(self, words: tuple[str, ...], environment: dict[str, str]) -> Started:
        numbers = (self.tcp.fileno(), self.unix.fileno())

        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", "-c", AS_SYSTEMD, ",".join(map(str, numbers))),
            *(sys.executable, "-m", "strowger_gateway.gateway.cli", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                **environment,
                "LISTEN_FDS": str(len(numbers)),
                "LISTEN_FDNAMES": "http:local",
                "NOTIFY_SOCKET": str(self._folder / "notify"),
            },
            pass_fds=numbers,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        return cast(Running, process), process.stdout, process.stderr

    @asynccontextmanager
    async def service(self, text: str) -> AsyncGenerator[Commanded, None]:
        config = self._folder / "config.yaml"
        async with commanded(config, text, start=self._start) as up:
            yield up


@contextmanager
def systemd(folder: Path) -> Generator[Systemd, None, None]:
    manager = Systemd(folder)
    try:
        yield manager
    finally:
        manager.close()


async def limited(address: tuple[str, int], times: int) -> list[str]:
    """Send requests with the key that has a limit, one after the other."""
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(Client, *address)
    found = [await client.exchange(CHAT, key="few") for _ in range(times)]
    client.close()
    return found


async def test_a_service_with_a_socket_is_upgraded_and_restarted_and_refuses_and_resets_nothing(
    tmp_path: Path,
) -> None:
    """What arrives while no gateway runs waits for the next one, over TCP and the Unix socket.

    A new gateway that cannot start changes nothing. One that can goes on with the limits.
    """
    with systemd(tmp_path) as manager:
        async with provider(speaks) as remote:
            text = CONFIG.format(url=remote.base_url, folder=tmp_path)
            address: tuple[str, int] = manager.tcp.getsockname()
            loads = [Load(address, 20, 15), Load(manager.path, 20, 15)]
            async with manager.service(text) as up, line_of(up) as line:
                for load in loads:
                    await load.start()
                up.edit(text.replace("in_order", "in_no_order"))
                os.kill(line.pid, signal.SIGUSR2)
                told = await up.said("before it was ready")
                before = await limited(address, 3)
                up.edit(text)
                await line.hand_over(until_gone=True)
                after = await limited(address, 3)
                served = up.lines
            async with manager.service(text):
                for load in loads:
                    await load.sent(8)
                    await load.stop()
            reported = manager.reported()

    assert [set(load.outcomes) for load in loads] == [{"answered"}] * 2
    assert any(f"on http://127.0.0.1:{address[1]}, unix:{manager.path}" in one for one in served)
    assert "exited with status 1" in told
    assert any("in_no_order" in one for one in served)
    assert (before, after) == (["answered"] * 3, ["answered", "answered", "status 429"])
    second = ["READY=1", f"MAINPID={line.pid}", "READY=1", "STOPPING=1"]
    assert reported == [*second, "READY=1"]


def test_sockets_for_another_process_are_not_taken() -> None:
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"}

    assert activated(environment) is None
    assert environment == {}


def reported_in_a_child(names: str, count: int, descriptors: list[int]) -> str:
    """Return what a service with these descriptors, from 3 on, gets: problems, or sockets."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        report = os.dup2(writer, 100)
        for at, descriptor in enumerate(
            os.dup2(one, 110 + at) for at, one in enumerate(descriptors)
        ):
            os.dup2(descriptor, 3 + at)
        os.closerange(3 + len(descriptors), 50)
        pid = str(os.getpid())
        try:
            given = activated(
                {"LISTEN_PID": pid, "LISTEN_FDS": str(count), "LISTEN_FDNAMES": names}
            )
            os.write(report, f"{0 if given is None else len(given.sockets)} sockets".encode())
        except InvalidConfig as exc:
            os.write(report, "; ".join(exc.problems).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    told = os.read(reader, 1000).decode()
    os.close(reader)
    return told


def test_a_file_that_is_not_a_listening_socket_is_named() -> None:
    with open(os.devnull) as file:
        told = reported_in_a_child("http", 1, [file.fileno()])

    assert told.startswith("LISTEN_FDS: file descriptor 3 (http) is not a socket")
    assert told.endswith("use ListenStream=")


def test_a_count_of_more_sockets_than_are_open_is_an_error_and_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        told = reported_in_a_child("http", 3, [one.fileno()])

    assert told == (
        "LISTEN_FDS: file descriptor 4 is not open: Bad file descriptor; the count is 3"
    )


@pytest.mark.parametrize("names", ["", "http", "http:local", "a:b:c"])
def test_every_socket_is_served_however_many_of_them_have_names(names: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        told = reported_in_a_child(names, 2, [one.fileno(), other.fileno()])

    assert told == "2 sockets"


def test_the_address_that_most_clients_reach_decides_whether_keys_are_required() -> None:
    from strowger_gateway.gateway.fleet.listening.listening_socket import Listener

    with (
        socket.create_server(("127.0.0.1", 0)) as local,
        socket.create_server(("0.0.0.0", 0)) as open_one,
    ):
        found = widest_address(Listener(sockets=(local, open_one)))
        port = open_one.getsockname()[1]

    assert found == ("0.0.0.0", port)
