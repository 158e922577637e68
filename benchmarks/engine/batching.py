"""Eight concurrent requests: the engine compared with transformers' continuous batching.

    python -m benchmarks.engine.batching [--shapes 125m] [--context 384] [--threads 2]

transformers runs `generate_batch` with sdpa attention, the one it has on a CPU. Its own time stamps
give the moment when all requests had their first token, and the end of the last one. The sides take
turns; see decode.py.
"""

# transformers annotates these members only in part:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Protocol, cast

import torch
from transformers.generation.configuration_utils import ContinuousBatchingConfig, GenerationConfig
from transformers.modeling_utils import PreTrainedModel

from benchmarks.engine import table, timing
from benchmarks.engine.ours import STEP_TOKENS, Ours
from benchmarks.engine.shapes import SHAPES, peer, prompts
from benchmarks.engine.timing import Run, Side, Stopwatch, Took, conditions, take_turns
from strowger_gateway.local_engine.device import choose_dtype, probe

BATCH, PAGE, TARGET = 8, 256, "2x"


class _Output(Protocol):
    """The output of `generate_batch` for one request."""

    prompt_ids: list[int]
    generated_tokens: list[int]
    timestamps: list[float]


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    dtype = choose_dtype("auto", "cpu", probe())
    print(f"{conditions()}; {dtype}, {options.tokens} new tokens; target: {TARGET}\n")
    table.head("shape", "batch", "context", *table.COMPARED, "same tokens")
    for name in options.shapes:
        shape = SHAPES[name]
        engine = Ours(shape, dtype, BATCH)
        model = peer(shape, dtype)
        rows = prompts(shape, BATCH, options.context)
        tokens = options.tokens
        theirs = Side(partial(_generate_batch, model, rows, tokens), timing.decode)
        ours = Side(partial(engine.generate, rows, tokens), timing.decode)
        slow, fast = take_turns(
            [theirs, ours], rounds=options.rounds, seconds=options.seconds / len(options.shapes)
        )
        cells = table.compared(BATCH * (tokens - 1), slow, fast)
        same = "yes" if theirs.tokens == ours.tokens else "no"
        table.row(name, BATCH, options.context, *cells, same)
    return 0


def _generate_batch(model: PreTrainedModel, prompts: Sequence[list[int]], tokens: int) -> Run:
    """CPU time of decoding is its share of the total: the stamps have wall time only."""
    pages = -(-(len(prompts[0]) + tokens) // PAGE) * len(prompts)
    watch = Stopwatch()
    outputs = cast(
        dict[str, _Output],
        model.generate_batch(  # pyright: ignore[reportCallIssue]  # a mixin's method
            inputs=list(prompts),
            generation_config=GenerationConfig(
                max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
            ),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=PAGE,
                num_blocks=2 * pages,
                max_batch_tokens=STEP_TOKENS,
                allow_block_sharing=False,
            ),
            record_timestamps=True,
        ),
    )
    took = watch.read()
    first = max(one.timestamps[0] for one in outputs.values())
    last = max(one.timestamps[-1] for one in outputs.values())
    answers = {tuple(one.prompt_ids): one.generated_tokens for one in outputs.values()}
    wall = last - first
    return Run(
        tokens=[answers[tuple(prompt)] for prompt in prompts],
        whole=took,
        decode=Took(wall=wall, cpu=took.cpu * wall / took.wall),
    )


class Options(argparse.Namespace):
    shapes: list[str]
    context: int
    tokens: int
    rounds: int
    seconds: float
    threads: int


def _options() -> Options:
    parser = argparse.ArgumentParser(
        description="comparison with transformers' continuous batching"
    )
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=["125m"])
    parser.add_argument("--context", type=int, default=384)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(namespace=Options())


if __name__ == "__main__":
    sys.exit(main())
