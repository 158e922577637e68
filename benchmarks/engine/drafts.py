"""Prompt-lookup drafts on repetitive text: the engine with drafts and without.

    python -m benchmarks.engine.drafts [--shapes 125m,0.5b] [--drafts 7] [--threads 2]

The models are random ones with a rearranged head, so that their output repeats every 40 tokens.
The prompt contains three repetitions, in which the drafts find the continuation. Nearly every draft
is accepted: the best case. A step still computes every layer for every draft.
"""

# transformers annotates these members only in part:
# pyright: reportUnknownMemberType=false

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import torch
from msgspec.structs import replace
from torch import Tensor

from benchmarks.engine import table, timing
from benchmarks.engine.ours import Ours
from benchmarks.engine.shapes import SHAPES, Shape, cache_folder, random_model
from benchmarks.engine.timing import Side, bandwidth, conditions, take_turns
from strowger_gateway.local_engine.device import choose_dtype, probe

PERIOD, ROUNDS, TARGET = 40, 3, "2x"
FAINT = 1e-3
"""Scale of each layer's contribution: small, so that the last token determines the next."""


class _Weight(Protocol):
    weight: Tensor


class _Attention(Protocol):
    o_proj: _Weight


class _Feed(Protocol):
    down_proj: _Weight


class _Layer(Protocol):
    self_attn: _Attention
    mlp: _Feed


class _Core(Protocol):
    embed_tokens: _Weight
    layers: list[_Layer]


class _Model(Protocol):
    model: _Core
    lm_head: _Weight


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    dtype = choose_dtype("auto", "cpu", probe())
    speed = bandwidth()
    print(f"{conditions()}; memory {speed / 1e9:.1f} GB/s, {dtype}, batch 1")
    print(f"{options.tokens} new tokens, at most {options.drafts} drafts; target: {TARGET}\n")
    table.head("shape", *table.COMPARED, "same tokens")
    for name in options.shapes:
        shape = replace(SHAPES[name], name=f"{name}-repeating", tie_word_embeddings=False)
        path = _repeating(shape)
        prompt = [[3 + at % PERIOD for at in range(ROUNDS * PERIOD)]]
        engines = [
            Ours(shape, dtype, 1, path=path, drafts=drafts) for drafts in (0, options.drafts)
        ]
        sides = [
            Side(partial(engine.generate, prompt, options.tokens), timing.decode)
            for engine in engines
        ]
        plain, drafted = take_turns(
            sides, rounds=options.rounds, seconds=options.seconds / len(options.shapes)
        )
        same = "yes" if sides[0].tokens == sides[1].tokens else "no"
        table.row(name, *table.compared(options.tokens - 1, plain, drafted), same)
    return 0


def _repeating(shape: Shape) -> Path:
    """A folder with a model in which t + 1 follows token t, and the first one after PERIOD."""
    path = cache_folder() / shape.name
    if (path / "config.json").exists():
        return path
    made = random_model(shape)
    model = cast(_Model, made)
    with torch.no_grad():
        after = torch.arange(shape.vocab_size)
        follows = torch.arange(3, 3 + PERIOD)
        after[follows] = follows.roll(1)
        model.lm_head.weight.copy_(model.model.embed_tokens.weight[after])
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(FAINT)
            layer.mlp.down_proj.weight.mul_(FAINT)
    made.save_pretrained(path)
    return path


class Options(argparse.Namespace):
    shapes: list[str]
    drafts: int
    tokens: int
    rounds: int
    seconds: float
    threads: int


def _options() -> Options:
    parser = argparse.ArgumentParser(description="the engine with and without prompt-lookup drafts")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=["125m", "0.5b"])
    parser.add_argument("--drafts", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(namespace=Options())


if __name__ == "__main__":
    sys.exit(main())
