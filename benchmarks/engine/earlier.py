"""The engine of this checkout compared with that of an earlier one, side by side.

    git worktree add /tmp/earlier COMMIT
    python -m benchmarks.engine.earlier --against /tmp/earlier [--shapes 125m] [--threads 2]

Both decode the same random weights in a process of their own and take turns; see decode.py. Rows:
decoding at batch 1 and 8, eight concurrent requests of a longer context, and a prefill.
"""

import argparse
import sys
from functools import partial

import torch

from benchmarks.engine import table, timing
from benchmarks.engine.ours import Ours
from benchmarks.engine.peer_process import Peer
from benchmarks.engine.shapes import SHAPES, Shape, folder, prompts
from benchmarks.engine.timing import Side, conditions, take_turns
from strowger_gateway.local_engine.device import choose_dtype, probe

BATCH, TARGET = 8, "0.95x"


class _Options(argparse.Namespace):
    against: str
    shapes: list[str]
    context: int
    long: int
    prefill: int
    tokens: int
    rounds: int
    seconds: float
    threads: int


def main() -> int:
    options = _options()
    if not options.against:
        print("skipped: no --against given: the folder of an earlier checkout", file=sys.stderr)
        return 0
    torch.set_num_threads(options.threads)
    print(f"{conditions()}; {options.tokens} new tokens; target: {TARGET}\n")
    table.head("shape", "case", *table.COMPARED, "same tokens")
    for name in options.shapes:
        _compare(SHAPES[name], options)
    return 0


def _compare(shape: Shape, options: _Options) -> None:
    peer = Peer(
        sys.executable,
        "earlier_peer.py",
        options.against,
        shape.name,
        str(BATCH),
        str(options.threads),
    )
    # The weights are built by now, if the peer had to build them.
    folder(shape)
    engine = Ours(shape, choose_dtype("auto", "cpu", probe()), BATCH)
    tokens, steps = options.tokens, options.tokens - 1
    cases = (
        ("batch 1", 1, options.context, tokens, timing.decode, steps),
        (f"batch {BATCH}", BATCH, options.context, tokens, timing.decode, BATCH * steps),
        (f"{BATCH} at once", BATCH, options.long, tokens, timing.whole, BATCH * tokens),
        (f"prefill of {options.prefill}", 1, options.prefill, 2, timing.prefill, options.prefill),
    )
    seconds = options.seconds / (len(cases) * len(options.shapes))
    for name, batch, length, count, part, counted in cases:
        rows = prompts(shape, batch, length)
        theirs = Side(partial(peer.run, rows, count), part)
        ours = Side(partial(engine.generate, rows, count), part)
        slow, fast = take_turns([theirs, ours], rounds=options.rounds, seconds=seconds)
        same = "yes" if theirs.tokens == ours.tokens else "no"
        table.row(shape.name, name, *table.compared(counted, slow, fast), same)
    peer.close()


def _options() -> _Options:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--against", default="", help="folder of the earlier checkout")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=["125m"])
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--long", type=int, default=384)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(namespace=_Options())


if __name__ == "__main__":
    sys.exit(main())
