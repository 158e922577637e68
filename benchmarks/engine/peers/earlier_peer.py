"""The engine of another checkout as a peer, by that checkout's own benchmarks/engine/ours.py.

../peer_process.py describes the lines that it reads and writes.
"""

# Its modules are those of the other checkout, which the type checker does not see:
# pyright: basic

import importlib
import json
import sys
from pathlib import Path


def say(**line):
    print(json.dumps(line), flush=True)


def main():
    checkout, shape, batch, threads = sys.argv[1:5]
    sys.path.insert(0, checkout)
    import torch

    import benchmarks.engine.ours as ours
    from benchmarks.engine.shapes import SHAPES

    package = "strowger_gateway" if (Path(checkout) / "strowger_gateway").is_dir() else ""
    device = importlib.import_module(f"{package}.local_engine.device".strip("."))
    assert ours.__file__.startswith(checkout), ours.__file__
    torch.set_num_threads(int(threads))
    engine = ours.Ours(
        SHAPES[shape], device.choose_dtype("auto", "cpu", device.probe()), int(batch)
    )
    say(name=f"the engine at {checkout}")
    for line in sys.stdin:
        ask = json.loads(line)
        run = engine.generate(ask["prompts"], ask["tokens"])
        say(
            tokens=run.tokens,
            whole_wall=run.whole.wall,
            whole_cpu=run.whole.cpu,
            decode_wall=run.decode.wall,
            decode_cpu=run.decode.cpu,
        )


if __name__ == "__main__":
    main()
