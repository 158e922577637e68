"""Chaos: everything that can fail does, again and again, and every client's answer is judged.

python -m benchmarks.chaos [--seconds 300] [--seed 1] [--clients 24]

A gateway with two workers before three upstreams that are in turn slow, reset connections, answer
500 and 429, cut answers, send garbage and stall; reloads; kill -9 of workers and of upstreams, by
pid and children of this run alone; SIGTERM at the end, with the clients still asking. All draws
are seeded; what the scheduler of the machine does is not. It ends with status 1 where more than
0.1 % of the requests were refused while an upstream served, or any answer hung, was mixed up,
corrupt or falsely complete, or a request has no record.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from benchmarks.chaos.run import run
from benchmarks.chaos.verdict import shown


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=24)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(Path(folder), args.seconds, args.seed, args.clients))
    print(shown(found))
    sys.exit(0 if found.passed else 1)


if __name__ == "__main__":
    main()
