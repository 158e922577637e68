"""The attacking process.

python -m benchmarks.isolation.attacker NAME PORT: builds the attack, prints "ready", waits for a
line on standard input, sends everything and prints a line with the number of answers per status
and the time of the last one. Connections are closed after a minute.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from benchmarks.isolation.attacks import Pieces
from benchmarks.isolation.requests import exchange
from benchmarks.isolation.rows import ROWS

GIVE_UP_S: Final = 60.0


async def _one(port: int, pieces: Pieces, found: Counter[str]) -> None:
    try:
        whole = [pieces] if isinstance(pieces, bytes) else pieces
        answer = await asyncio.wait_for(exchange(port, whole), GIVE_UP_S)
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as exc:
        found[
            "cut off" if isinstance(exc, asyncio.IncompleteReadError) else type(exc).__name__
        ] += 1
    else:
        found[str(answer.status)] += 1


async def _all(port: int, requests: Sequence[Pieces]) -> str:
    found: Counter[str] = Counter()
    started = time.perf_counter()
    await asyncio.gather(*(_one(port, request, found) for request in requests))
    took = time.perf_counter() - started
    return ", ".join(f"{n}x {what}" for what, n in found.most_common()) + f" in {took:.1f} s"


def main() -> None:
    _, name, port = sys.argv
    requests = ROWS[name].attack(int(port))
    print("ready", flush=True)
    sys.stdin.readline()
    print(asyncio.run(_all(int(port), requests)), flush=True)


if __name__ == "__main__":
    main()
