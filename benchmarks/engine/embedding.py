"""Embeddings: the engine compared with sentence-transformers' loop, same weights and process.

    python -m benchmarks.engine.embedding [--inputs 96] [--rounds 3] [--threads 2]

The model is a BERT of all-MiniLM-L6-v2's shape (6 layers, hidden 384, 12 heads). Its weights are
random; speed does not depend on their values. Inputs have 8 to 128 tokens, most of them few. The
peer sorts by length, pads batches of 32 and averages, as sentence-transformers' `encode` does. Two
cases: all inputs in one call, and one call per input, where the engine batches waiting calls and
the peer cannot. Both sides take turns; the ratio is the median of the rounds' ratios.
"""

# transformers annotates these members only in part:
# pyright: reportUnknownMemberType=false

import argparse
import logging
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModel

from strowger_gateway.local_engine.device import probe
from strowger_gateway.local_engine.embeddings.embedding_lane import EmbeddingLane
from strowger_gateway.local_engine.embeddings.encoder import EmbeddingEncoder
from strowger_gateway.local_engine.embeddings.input_queue import Embedded, Inputs
from strowger_gateway.local_engine.embeddings.sentence_transformers import (
    Normalise,
    Pooling,
    SentenceTransformersConfig,
)

VOCABULARY, PEER_BATCH, STEP_TOKENS = 30_522, 32, 512
Rows = tuple[tuple[int, ...], ...]


def main() -> None:
    options = _options()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(options.threads)
    rows = _rows(options.inputs)
    print(f"{len(rows)} inputs, {sum(map(len, rows))} tokens, {options.threads} thread(s)\n")
    print("numbers    calls   peer inputs/s   engine inputs/s   ratio   lowest cosine")
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        _model().save_pretrained(folder)
        fast = (torch.bfloat16,) if probe().cpu_bfloat16 else ()
        for dtype in (torch.float32, *fast):
            recipe = SentenceTransformersConfig(
                pooling=Pooling(modes=("mean",)), steps=(Normalise(),)
            )
            encoder = EmbeddingEncoder(folder, recipe, device="cpu", dtype=dtype, slow_16=False)
            lane = EmbeddingLane(encoder, max_step_tokens=STEP_TOKENS)
            peer = _loaded(Path(folder), dtype)
            for calls in (1, len(rows)):
                _compare(peer, lane, rows, calls, options.rounds, str(dtype).split(".")[1])


def _compare(
    peer: PreTrainedModel, lane: EmbeddingLane, rows: Rows, calls: int, rounds: int, dtype: str
) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    least = 1.0
    for round in range(rounds + 1):
        theirs, their_time = _timed(lambda: _encode(peer, rows, calls))
        ours, our_time = _timed(lambda: _through(lane, rows, calls))
        least = min(least, float((theirs * ours).sum(dim=1).min()))
        if round:
            times[0].append(their_time)
            times[1].append(our_time)
    speeds = [len(rows) / statistics.median(one) for one in times]
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    print(
        f"{dtype:9} {calls:6}   {speeds[0]:13.1f}   {speeds[1]:15.1f}   {ratio:5.2f}   {least:.6f}",
        flush=True,
    )


def _timed(work: Callable[[], Tensor]) -> tuple[Tensor, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def _through(lane: EmbeddingLane, rows: Rows, calls: int) -> Tensor:
    """All calls are queued at the same time, as those of concurrent clients are."""
    size = len(rows) // calls
    for id in range(calls):
        lane.add(Inputs(lane="", id=id, rows=rows[id * size : (id + 1) * size]))
    ended: list[Embedded] = []
    while lane.busy:
        ended += lane.step(0.0)
    found = {one.id: one.vectors for one in ended}
    return torch.cat([vectors for id in range(calls) if (vectors := found[id]) is not None])


def _encode(model: PreTrainedModel, rows: Rows, calls: int) -> Tensor:
    size = len(rows) // calls
    return torch.cat([_one_call(model, rows[at : at + size]) for at in range(0, len(rows), size)])


def _one_call(model: PreTrainedModel, rows: Rows) -> Tensor:
    order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
    found = torch.empty(len(rows), 384)
    for at in range(0, len(rows), PEER_BATCH):
        places = order[at : at + PEER_BATCH]
        found[places] = _one_batch(model, [rows[place] for place in places])
    return found


def _one_batch(model: PreTrainedModel, rows: Sequence[Sequence[int]]) -> Tensor:
    most = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (most - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (most - len(row)) for row in rows])
    hidden = cast(Tensor, model(input_ids=ids, attention_mask=mask).last_hidden_state).float()
    mean = (hidden * mask[..., None]).sum(dim=1) / mask.sum(dim=1)[:, None]
    return torch.nn.functional.normalize(mean, dim=-1)


def _rows(count: int) -> Rows:
    """Log-uniform lengths: half of the inputs have fewer than 32 tokens."""
    chance = random.Random(0)
    lengths = [round(2 ** chance.uniform(3, 7)) for _ in range(count)]
    return tuple(
        tuple(chance.randrange(1000, VOCABULARY) for _ in range(length)) for length in lengths
    )


def _model() -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "bert",
        vocab_size=VOCABULARY,
        hidden_size=384,
        intermediate_size=1536,
        num_hidden_layers=6,
        num_attention_heads=12,
    )
    return cast(PreTrainedModel, AutoModel.from_config(config))


def _loaded(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    return cast(PreTrainedModel, AutoModel.from_pretrained(folder, dtype=dtype)).eval()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
