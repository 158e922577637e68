"""The engine compared with llama.cpp or OpenVINO GenAI: batch 1, batch 8, a prefill of 512.

    python -m benchmarks.engine.native_peers llama_cpp --peer-python PATH [--dtype bf16]
    python -m benchmarks.engine.native_peers openvino --peer-python PATH

The peer runs in the environment of the interpreter PATH (the files in peers/ list what it needs),
with the same weights and number of threads; the sides take turns, see decode.py. Without a peer the
benchmark is skipped.
"""

import sys
from functools import partial

import torch

from benchmarks.engine import table, timing
from benchmarks.engine.ours import Ours
from benchmarks.engine.peer_process import Options, Peer, PeerMissing, options, skip
from benchmarks.engine.shapes import SHAPES, Shape, cache_folder, folder, prompts
from benchmarks.engine.timing import Side, bandwidth, conditions, take_turns
from strowger_gateway.local_engine.device import choose_dtype, probe

BATCH = 8
DTYPES = {"llama_cpp": ("bf16", "f32"), "openvino": ("f32", "bf16")}
WANTED = {"llama_cpp": ("1.0x", "2x", "4x"), "openvino": ("0.75x", "0.9x", "0.9x")}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in DTYPES:
        print(f"skipped: name the peer, one of {', '.join(DTYPES)}", file=sys.stderr)
        return 0
    peer = sys.argv.pop(1)
    chosen = options(f"the engine compared with {peer}", DTYPES[peer])
    torch.set_num_threads(chosen.threads)
    try:
        for place, name in enumerate(chosen.shapes):
            _compare(peer, SHAPES[name], chosen, first=not place)
    except PeerMissing as exc:
        return skip(exc)
    return 0


def _compare(kind: str, shape: Shape, chosen: Options, *, first: bool) -> None:
    dtype = choose_dtype("auto", "cpu", probe())
    peer = Peer(
        chosen.peer_python,
        f"{kind}_peer.py",
        str(folder(shape)),
        str(cache_folder()),
        chosen.dtype,
        str(chosen.threads),
    )
    engine, speed = Ours(shape, dtype, BATCH), bandwidth()
    if first:
        print(f"{conditions()}; memory {speed / 1e9:.1f} GB/s; {peer.name}, ours {dtype}")
        print(f"prompts of {chosen.context}, {chosen.tokens} new tokens\n")
        table.head("shape", "case", "target", *table.COMPARED, "bandwidth used", "same tokens")
    steps = chosen.tokens - 1
    names = ("batch 1", f"{BATCH} at once", f"prefill of {chosen.prefill}")
    cases = (
        (1, chosen.context, chosen.tokens, timing.decode, steps),
        (BATCH, chosen.context, chosen.tokens, timing.decode, BATCH * steps),
        (1, chosen.prefill, 2, timing.prefill, chosen.prefill),
    )
    seconds = chosen.seconds / (len(cases) * len(chosen.shapes))
    for name, wanted, case in zip(names, WANTED[kind], cases, strict=True):
        batch, length, tokens, part, count = case
        rows = prompts(shape, batch, length)
        theirs = Side(partial(peer.run, rows, tokens), part)
        ours = Side(partial(engine.generate, rows, tokens), part)
        slow, fast = take_turns([theirs, ours], rounds=chosen.rounds, seconds=seconds)
        table.row(
            shape.name,
            name,
            wanted,
            *table.compared(count, slow, fast),
            table.limit(engine.step_bytes(batch, length), speed, fast, tokens - 1),
            "yes" if theirs.tokens == ours.tokens else "no",
        )
    peer.close()


if __name__ == "__main__":
    sys.exit(main())
