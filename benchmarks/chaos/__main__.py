"""Chaos: everything that can fail does, repeatedly, and every client's answer is checked.

python -m benchmarks.chaos [--seconds 300] [--seed 1] [--clients 24]

A gateway with two workers uses three upstreams that in turn are slow, reset connections, answer
with 500 and 429, cut answers, send garbage and stall. The run reloads the configuration and sends
kill -9 to workers and upstreams (by pid, only to children of this run). At the end the gateway gets
SIGTERM while clients still send. All random draws are seeded; the scheduling of the machine is not.
Exits with 1 if more than 0.1 % of the requests were rejected while an upstream served, if any
answer hung, was mixed up, corrupt or falsely complete, or if any request has no record.
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
