"""What traces add to a request, and what a dead collector does to the slowest ones.

`python -m benchmarks.tracing_overhead` (about a minute). Five gateways run at the same time, with
one provider on loopback (benchmarks.side_by_side): without traces; with traces of which none is
sampled; with all sampled, to a collector in this process; with all sampled, while nothing listens
at the collector's address; with metrics and no sampled traces. The bounds are 3 µs of CPU per
request unsampled and 15 µs sampled, and with a dead collector a 99th percentile within the spread
that the run has without traces.
"""

import asyncio
import contextlib
import re
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Final, cast

from benchmarks.gateway.contenders import free_port
from benchmarks.request_instructions import Provider, config_of
from benchmarks.side_by_side import CONNECTIONS, PLAIN, REQUESTS, Client, gateway

OFF, UNSAMPLED, SAMPLED, DEAD = "off", "unsampled", "sampled", "dead collector"
METRICS = "unsampled, metrics"
BOUNDS_US: Final = {UNSAMPLED: 3, SAMPLED: 15}
ROUNDS: Final = 14
TURNS: Final = 4
"""Turns of each gateway per round."""


class Collector(asyncio.Protocol):
    """One connection: every request gets an empty 200. received: the bytes of all bodies."""

    received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._held = b""

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, blank, body = self._held.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if blank and length is not None and len(body) >= int(length[1]):
            self._held = b""
            Collector.received += len(body)
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


def _config(provider: int, telemetry: str, port: int, folder: Path) -> str:
    return config_of(PLAIN, port, provider, folder) + telemetry


def _otlp(port: int, sample: int, more: str = "") -> str:
    endpoint = f"http://127.0.0.1:{port}"
    return f'telemetry: {{otlp: {{endpoint: "{endpoint}", sample: {sample}{more}}}}}\n'


Round = dict[str, tuple[float, float]]
"""By gateway: µs of CPU per request, and the 99th percentile of the latency in µs."""


async def measured() -> list[Round]:
    provider, collector, dead = free_port(), free_port(), free_port()
    telemetry = {
        OFF: "",
        UNSAMPLED: _otlp(collector, 0),
        SAMPLED: _otlp(collector, 1),
        DEAD: _otlp(dead, 1),
        METRICS: _otlp(collector, 0, ", metrics_interval_s: 5"),
    }
    with contextlib.ExitStack() as stack:
        loop = asyncio.get_running_loop()
        clients: dict[str, Client] = {}
        for name, text in telemetry.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            config = partial(_config, provider, text)
            clients[name] = Client(*stack.enter_context(gateway(config, folder)))
        async with (
            await loop.create_server(Provider, "127.0.0.1", provider),
            await loop.create_server(Collector, "127.0.0.1", collector),
        ):
            for client in clients.values():
                await client.connect()
            rounds = [await _round(clients) for _ in range(ROUNDS + 1)]
            for client in clients.values():
                client.close()
    if not Collector.received:
        raise RuntimeError("the collector received nothing")
    return rounds[1:]


async def _round(clients: dict[str, Client]) -> Round:
    spent = dict.fromkeys(clients, 0.0)
    for client in clients.values():
        client.seconds.clear()
    for turn in range(TURNS):
        for name in clients if turn % 2 else reversed(clients):
            spent[name] += await clients[name].turn()
    scale = 1e6 / (TURNS * REQUESTS * CONNECTIONS)
    return {
        name: (spent[name] * scale, statistics.quantiles(client.seconds, n=100)[98] * 1e6)
        for name, client in clients.items()
    }


def main() -> None:
    rounds = asyncio.run(measured())
    print(f"µs of CPU per request, gateway's process, {ROUNDS} rounds, {CONNECTIONS} connections")
    print(f"{OFF:20}{statistics.median(one[OFF][0] for one in rounds):8.1f}")
    for name in (UNSAMPLED, SAMPLED, DEAD, METRICS):
        added = [one[name][0] - one[OFF][0] for one in rounds]
        low, middle, high = statistics.quantiles(added, n=4)
        bound = f", at most {BOUNDS_US[name]}" if name in BOUNDS_US else ""
        print(f"{name:20}{middle:+8.1f}   quartiles {low:.1f} to {high:.1f}{bound}")
    print(f"99th percentile of the latency, ms, {CONNECTIONS} connections")
    for name in (OFF, DEAD):
        late = sorted(one[name][1] / 1e3 for one in rounds)
        low, middle, high = statistics.quantiles(late, n=4)
        spread = f"quartiles {low:.2f} to {high:.2f}, range {late[0]:.2f} to {late[-1]:.2f}"
        print(f"{name:20}{middle:8.2f}   {spread}")


if __name__ == "__main__":
    main()
