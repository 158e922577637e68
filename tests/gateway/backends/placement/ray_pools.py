"""`strowger placement` on a Ray cluster with two nodes, and clients that keep asking a gateway."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec

from tests.gateway.backends.engines.link.fleets import Certificates
from tests.gateway.backends.placement.ray_package import FOLDER
from tests.gateway.commanded import Commanded
from tests.gateway.routing.recovery.continuing import Client, read

MINUTES_S = 600.0
NODES = "engines.test"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[4]), str(FOLDER))),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "PYTHONWARNINGS": "ignore",
}
CONFIG = """
auth: {{admin_key: key-of-the-operator}}
server: {{drain_delay_s: 0}}
providers:
  - name: pool
    adapter: local
    timeouts: {{connect_s: 20, first_token_s: 120, between_tokens_s: 120, total_s: 300}}
    engines: {{discover: {{file: engines.json}}, tls: {tls}}}
models:
  - name: chat
    policy: least_busy
    stream_recovery: continue
    breaker: {{min_requests: 100000}}
    retry: {{attempts: 6, backoff_s: 0.1}}
    backends: [{{provider: pool, model: m}}]
"""


class Lines:
    """A process whose output is read. lines: of it, so far."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def said(self, words: str, since: int = 0) -> str:
        """Wait for a line with these words."""
        async with asyncio.timeout(MINUTES_S):
            while True:
                for line in self.lines[since:]:
                    if words in line:
                        return line
                assert not self._reading.done(), self.lines
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())


class Nodes(Lines):
    """The cluster. address: of Ray."""

    address = ""

    async def kill(self, what: str) -> int:
        """Kill an `engine`, an `actor` or the second `node`; return the number of processes."""
        assert self.process.stdin is not None
        since = len(self.lines)
        self.process.stdin.write(f"{what}\n".encode())
        async with asyncio.timeout(MINUTES_S):
            while len(self.lines) == since:  # noqa: ASYNC110  polled
                await asyncio.sleep(0.05)
        return int(self.lines[since])


async def started(*words: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *words),
        stdin=PIPE,
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=ENVIRONMENT,
    )


@asynccontextmanager
async def two_nodes(folder: Path) -> AsyncGenerator[Nodes, None]:
    """A cluster until the block ends. folder: for its log."""
    log = (folder / "ray.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.gateway.backends.placement.two_nodes"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=log,
        env=ENVIRONMENT,
    )
    nodes = Nodes(process)
    log.close()
    try:
        nodes.address = await nodes.said(":")
        nodes.lines.clear()
        yield nodes
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def tls_of(certificates: Certificates) -> str:
    """`engines.tls`: the nodes have one certificate, whatever their addresses are."""
    return certificates.tls().replace("}", f", server_name: {NODES}}}")


def placement_file(
    folder: Path,
    certificates: Certificates,
    address: str,
    replicas: str = "{min: 1}",
    resource: str = "SLOT",
) -> Path:
    engine = certificates.issue(NODES, "node")
    file = folder / "placement.yaml"
    file.write_text(
        f"""
file: engines.json
engine: {{device: cpu, dtype: float32, models: [{{name: m, path: 'bundled:tiny-chat'}}]}}
listen: {{cert: {engine.cert}, key: {engine.key}, ca: {engine.ca}, allow: [gateway-a], drain_s: 60}}
tls: {tls_of(certificates)}
settle_s: 3
replicas: {replicas}
ray: {{address: '{address}', resources: {{{resource}: 1}}}}
"""
    )
    return file


@asynccontextmanager
async def placing(file: Path) -> AsyncGenerator[Lines, None]:
    """The command, until the block ends; then its engines end, too."""
    process = Lines(await started("-m", "strowger_gateway.gateway.cli", "placement", str(file)))
    try:
        yield process
    finally:
        await process.stop()
        ending = Lines(
            await started("-m", "strowger_gateway.gateway.cli", "placement", str(file), "--end")
        )
        await ending.process.wait()


def listed(folder: Path) -> frozenset[str]:
    file = folder / "engines.json"
    if not file.exists():
        return frozenset()
    groups: list[dict[str, list[str]]] = msgspec.json.decode(file.read_bytes())
    return frozenset(groups[0]["targets"])


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(MINUTES_S):
        while not what():  # noqa: ASYNC110  polled
            await asyncio.sleep(0.1)


class Load:
    """Clients that ask one stream after the other. answers: complete or not, in order of ending.

    failed: what is wrong with those that failed. begun: streams that were sent.
    """

    def __init__(self, up: Commanded, clients: int, tokens: int = 60) -> None:
        self.answers: list[Client] = []
        self.failed: list[str] = []
        self.begun = 0
        self._tokens = tokens
        self._stopping = False
        self._tasks = [asyncio.create_task(self._ask(up)) for _ in range(clients)]

    @property
    def continued(self) -> int:
        """Answers that another engine has finished."""
        return sum(any("continued after" in line for line in one.comments) for one in self.answers)

    async def more(self, number: int) -> None:
        """Wait until further answers have ended."""
        before = len(self.answers)
        await until(lambda: len(self.answers) >= before + number)

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _ask(self, up: Commanded) -> None:
        body = {
            "model": "chat",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": self._tokens,
            "ignore_eos": True,
        }
        async with httpx.AsyncClient(base_url=up.url, timeout=MINUTES_S) as client:
            while not self._stopping:
                self.begun += 1
                got = await client.post("/v1/chat/completions", json=body)
                if got.status_code != 200:
                    self.failed.append(f"{got.status_code} {got.text}")
                    continue
                answer = read(got.text)
                self.answers.append(answer)
                if (
                    answer.error
                    or not answer.done
                    or answer.usage.get("completion_tokens") != self._tokens
                ):
                    self.failed.append(f"{answer.error} {answer.usage}")
