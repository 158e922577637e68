"""Greedy decoding, the engine beside transformers' own `generate()`, same weights, same process.

    python benchmarks/engine/decode.py [--batches 1,8] [--prompt 128] [--tokens 48] [--rounds 7]

A random-weight llama of about 125 million parameters: 12 layers, hidden 768, 12 heads over 4
key/value heads of 64, 32,000 words; speed does not depend on what the weights say. Both sides
take turns, and the ratio is the median of the rounds' ratios, so that a busy machine slows both.
Prefill is outside of the measured time: what is timed is the tokens after the first.
"""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import argparse
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_utils import PreTrainedModel

from local_engine.blocks import BlockPool
from local_engine.device import choose_dtype, probe
from local_engine.draw import Drawer
from local_engine.jobs import Delta, Job
from local_engine.lane import Lane
from local_engine.loading import load
from local_engine.params import RowParams
from local_engine.runner import Runner
from local_engine.scheduler import Limits, Scheduler
from local_engine.sequence import new_sequence

VOCABULARY, CONTEXT = 32_000, 2048
GREEDY = RowParams(temperature=0.0)


def main() -> int:
    options = _options()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(options.threads)
    dtype = choose_dtype("auto", "cpu", probe())
    with tempfile.TemporaryDirectory() as folder:
        peer = _peer(dtype)
        peer.save_pretrained(folder)
        lane = _lane(folder, dtype, max(options.batches))
    count = sum(weight.numel() for weight in peer.parameters()) / 1e6
    print(f"llama, {count:.0f} M parameters, {dtype}, {options.threads} thread(s)")
    print(f"prompt {options.prompt}, {options.tokens} new tokens, {options.rounds} rounds\n")
    print("batch   generate() tok/s   engine tok/s   ratio   same tokens")
    for batch in options.batches:
        prompts = _prompts(batch, options.prompt)
        _compare(peer, lane, prompts, options.tokens, options.rounds)
    return 0


def _compare(
    peer: PreTrainedModel, lane: Lane, prompts: torch.Tensor, tokens: int, rounds: int
) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    same = True
    for round in range(rounds + 1):
        theirs, their_time = _generate(peer, prompts, tokens)
        ours, our_time = _decode(lane, prompts, tokens)
        same = same and ours == theirs
        if round:
            times[0].append(their_time)
            times[1].append(our_time)
    speeds = [len(prompts) * (tokens - 1) / statistics.median(one) for one in times]
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    print(
        f"{len(prompts):5}   {speeds[0]:16.1f}   {speeds[1]:12.1f}   {ratio:5.2f}   {same}",
        flush=True,
    )


def _generate(
    peer: PreTrainedModel, prompts: torch.Tensor, tokens: int
) -> tuple[list[list[int]], float]:
    """Their tokens, and the seconds between the first and the last of them."""
    stamps: list[float] = []

    def stamp(ids: torch.Tensor, scores: object) -> torch.Tensor:
        """A stopping criterion is asked once a step; this one never stops."""
        stamps.append(time.perf_counter())
        return torch.zeros(len(ids), dtype=torch.bool)

    out = peer.generate(  # pyright: ignore  # transformers annotates no argument
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        stopping_criteria=[stamp],
    )
    new = cast(torch.Tensor, out)[:, prompts.shape[1] :]
    return cast(list[list[int]], new.tolist()), stamps[-1] - stamps[0]


def _decode(lane: Lane, prompts: torch.Tensor, tokens: int) -> tuple[list[list[int]], float]:
    """Our tokens, and the seconds between the first and the last of them."""
    answers: dict[int, list[int]] = {}
    for id, prompt in enumerate(cast(list[list[int]], prompts.tolist())):
        answers[id] = []
        sequence = new_sequence(id=id, prompt=prompt, max_total=len(prompt) + tokens)
        lane.add(Job(lane="", sequence=sequence, params=GREEDY))
    first = 0.0
    with torch.inference_mode():
        while lane.busy:
            _note(answers, lane.step(0.0))
            if not first and all(answers.values()):
                first = time.perf_counter()
    return list(answers.values()), time.perf_counter() - first


def _note(answers: dict[int, list[int]], deltas: Sequence[Delta]) -> None:
    for delta in deltas:
        answers[delta.id] += (one.token for one in delta.drawn)


def _peer(dtype: torch.dtype) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "llama",
        vocab_size=VOCABULARY,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
    )
    return cast(PreTrainedModel, AutoModelForCausalLM.from_config(config, dtype=dtype)).eval()


def _lane(folder: str, dtype: torch.dtype, batch: int) -> Lane:
    runner = Runner(
        load(folder, device="cpu", dtype=dtype),
        device="cpu",
        kv_bytes=1 << 30,
        max_tokens=2 * batch * CONTEXT,
    )
    limits = Limits(max_step_tokens=4096, max_sequences=batch, max_seq_len=CONTEXT)
    pool = BlockPool(runner.blocks, runner.block_size, prefix_cache=False)
    return Lane(runner, Scheduler(limits, pool), Drawer(VOCABULARY, "cpu"))


def _prompts(batch: int, length: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(batch)
    return torch.randint(3, VOCABULARY, (batch, length), generator=source)


class Options(argparse.Namespace):
    batches: list[int]
    prompt: int
    tokens: int
    rounds: int
    threads: int


def _options() -> Options:
    parser = argparse.ArgumentParser(description="decode speed beside transformers")
    parser.add_argument(
        "--batches", type=lambda text: [int(one) for one in text.split(",")], default=[1, 8]
    )
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(namespace=Options())


if __name__ == "__main__":
    sys.exit(main())
