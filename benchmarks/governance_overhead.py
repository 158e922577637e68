"""What a key with three limits and two budgets adds to a request, against the same gateway without.

`python -m benchmarks.governance_overhead [--live]` (half a minute, and two more for instructions,
which need valgrind; --live leaves them out). The bounds are 15 µs of CPU in one process and 5 % of
a request's instructions.

Live: both gateways run at the same time, with one provider on loopback (benchmarks.side_by_side).
"""

import argparse
import asyncio
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.gateway.contenders import free_port
from benchmarks.request_instructions import ROOT, Provider, config_of, each
from benchmarks.side_by_side import CONNECTIONS, PLAIN, REQUESTS, Client, gateway

GOVERNED: Final = "chat, governed"
BOUND_US: Final = 15
BOUND_SHARE: Final = 0.05
ROUNDS: Final = 14
TURNS: Final = 6
"""Turns of each gateway per round."""


async def live() -> list[tuple[float, float]]:
    """Per round, the µs of CPU per request: without limits and budgets, and with them."""
    provider = free_port()
    rounds: list[tuple[float, float]] = []
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as other,
        gateway(partial(_config, PLAIN, provider), Path(one)) as plain,
        gateway(partial(_config, GOVERNED, provider), Path(other)) as governed,
    ):
        loop = asyncio.get_running_loop()
        async with await loop.create_server(Provider, "127.0.0.1", provider):
            clients = Client(*plain), Client(*governed)
            for client in clients:
                await client.connect()
            for _ in range(ROUNDS + 1):
                spent = [0.0, 0.0]
                for turn in range(TURNS):
                    for index in (0, 1) if turn % 2 else (1, 0):
                        spent[index] += await clients[index].turn()
                scale = 1e6 / (TURNS * REQUESTS * CONNECTIONS)
                rounds.append((spent[0] * scale, spent[1] * scale))
            for client in clients:
                client.close()
    return rounds[1:]


def _config(row: str, provider: int, port: int, folder: Path) -> str:
    return config_of(row, port, provider, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", action="store_true", help="count no instructions")
    options = parser.parse_args()
    rounds = asyncio.run(live())
    added = sorted(governed - plain for plain, governed in rounds)
    print(f"µs of CPU per request, gateway's process, {ROUNDS} rounds, {CONNECTIONS} connections")
    print(f"without     {statistics.median(plain for plain, _ in rounds):8.1f}")
    print(f"with        {statistics.median(governed for _, governed in rounds):8.1f}")
    low, _, high = statistics.quantiles(added, n=4)
    print(f"added       {statistics.median(added):8.1f}   (at most {BOUND_US})")
    print(f"quartiles   {low:8.1f} to {high:.1f}", flush=True)
    if options.live:
        return
    plain, governed = each(ROOT, PLAIN), each(ROOT, GOVERNED)
    print("instructions per request")
    print(f"without     {plain:8,.0f}")
    print(f"with        {governed:8,.0f}")
    share = governed / plain - 1
    print(f"added       {governed - plain:8,.0f}   {share:.1%} (at most {BOUND_SHARE:.0%})")


if __name__ == "__main__":
    main()
