"""One chaos run: starts the processes, injects faults and keeps the timeline."""

import asyncio
import os
import random
import signal
import sqlite3
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from contextlib import closing
from pathlib import Path

from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.upstream import MODES, SERVING
from benchmarks.chaos.verdict import Found, Timeline
from benchmarks.soak.subject import free_port

_CONFIG = """
server: {{port: {port}, workers: 2, drain_delay_s: 1, drain_timeout_s: 15, reload: signal}}
providers:
{providers}
models:
  - name: chat
    policy: {policy}
    deadline_s: 20
    retry: {{attempts: 5}}
    backends: [{backends}]
store: {{url: "sqlite:///{folder}/chaos.db", spool: {folder}/spool}}
"""
_PROVIDER = """  - {{name: u{place}, adapter: openai, api_key: k,
     base_url: "http://127.0.0.1:{port}/v1",
     timeouts: {{connect_s: 1, first_token_s: 4, between_tokens_s: 2, total_s: 8}}}}"""

STEP_S = 2.0
"""Seconds between two faults."""

ALL_DOWN = 0.08
"""Share of the steps in which no upstream serves."""

AFTER_TERM_S = 3.0


class Chaos:
    """The processes, and the random draws that select faults."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._draw = random.Random(seed)
        self._seed = seed
        self.port, self._ports = free_port(), [free_port() for _ in range(3)]
        self._upstreams: list[Process] = []
        self.timeline = Timeline(places=3)
        self._policies = ["weighted", "in_order", "least_busy"]

    async def start(self) -> None:
        self._upstreams = [await self._upstream(place) for place in range(3)]
        self._configure()
        serve = (
            "-m",
            "strowger_gateway.gateway.cli",
            "serve",
            "--config",
            str(self._folder / "chaos.yaml"),
        )
        with (self._folder / "log").open("wb") as log:
            self._gateway = await asyncio.create_subprocess_exec(
                sys.executable, *serve, stdout=DEVNULL, stderr=log
            )
        await _listens(self.port)
        await asyncio.sleep(1.0)

    async def end(self) -> float:
        """Send SIGTERM and return the seconds until the gateway has exited."""
        begun = time.monotonic()
        self._gateway.send_signal(signal.SIGTERM)
        self.timeline.term = begun
        await asyncio.wait_for(self._gateway.wait(), 60)
        return time.monotonic() - begun

    async def stop(self) -> None:
        for process in (*self._upstreams, self._gateway):
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def break_things(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self._modes()
            what = self._draw.random()
            if what < 0.10:
                await self._kill_upstream(self._draw.randrange(3))
            elif what < 0.22:
                self._kill_worker()
            elif what < 0.32:
                self._configure()
                self._gateway.send_signal(signal.SIGHUP)
            await asyncio.sleep(STEP_S)
        for place in range(3):
            await self._mode(place, "good")

    async def _modes(self) -> None:
        modes = [self._draw.choice(MODES) for _ in range(3)]
        down = self._draw.random() < ALL_DOWN
        if not down and not any(mode in SERVING for mode in modes):
            modes[self._draw.randrange(3)] = "good"
        if down:
            modes = ["500" if mode in SERVING else mode for mode in modes]
        for place, mode in enumerate(modes):
            await self._mode(place, mode)

    async def _mode(self, place: int, mode: str) -> None:
        """Set the mode; during the switch the upstream counts as not serving."""
        if mode not in SERVING:
            self.timeline.note(place, serves=False)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[place])
        writer.write(b"POST /mode/%b HTTP/1.1\r\nhost: x\r\n\r\n" % mode.encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        if mode in SERVING:
            self.timeline.note(place, serves=True)

    async def _upstream(self, place: int) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "benchmarks.chaos.upstream"),
            *(str(self._ports[place]), str(self._seed + place)),
        )
        await _listens(self._ports[place])
        self.timeline.note(place, serves=True)
        return process

    async def _kill_upstream(self, place: int) -> None:
        self.timeline.note(place, serves=False)
        self.timeline.upstreams_killed += 1
        self._upstreams[place].kill()
        await self._upstreams[place].wait()
        await asyncio.sleep(self._draw.uniform(0, 1))
        self._upstreams[place] = await self._upstream(place)

    def _kill_worker(self) -> None:
        """Kill a worker or the importing process, unless one is missing; there are no engines."""
        tasks = Path(f"/proc/{self._gateway.pid}/task")
        children = [
            int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()
        ]
        if len(children) > 2:
            self.timeline.kills.append(time.monotonic())
            os.kill(self._draw.choice(sorted(children)), signal.SIGKILL)

    def _configure(self) -> None:
        self._policies.append(self._policies.pop(0))
        (self._folder / "chaos.yaml").write_text(
            _CONFIG.format(
                port=self.port,
                folder=self._folder,
                policy=self._policies[0],
                providers="\n".join(
                    _PROVIDER.format(place=place, port=port)
                    for place, port in enumerate(self._ports)
                ),
                backends=", ".join(f"{{provider: u{place}, model: m}}" for place in range(3)),
            )
        )
        self.timeline.reloads += 1


async def run(folder: Path, seconds: float, seed: int, clients: int) -> Found:
    """Raises TimeoutError if the gateway does not exit."""
    chaos = Chaos(folder, seed)
    try:
        await chaos.start()
        fleet = Fleet(f"http://127.0.0.1:{chaos.port}", seed, clients, pause_s=0.2)
        asking = asyncio.create_task(fleet.run())
        await chaos.break_things(seconds)
        await asyncio.sleep(1.0)
        ending = asyncio.create_task(chaos.end())
        await asyncio.sleep(AFTER_TERM_S)
        fleet.stop()
        ended_s = await ending
        await asking
    finally:
        await chaos.stop()
    recorded = _recorded(folder / "chaos.db")
    return Found.of(fleet.outcomes, chaos.timeline, recorded, ended_s)


def _recorded(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as reading:
        return {str(row[0]) for row in reading.execute("SELECT request_id FROM requests")}


async def _listens(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return
