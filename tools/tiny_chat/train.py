"""Train the bundled models from scratch: `python -m tools.tiny_chat.train --out FOLDER`."""

import argparse
import itertools
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import torch
from torch import Tensor
from torch.nn import functional
from transformers.generation.configuration_utils import GenerationConfig
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from tools.tiny_chat import corpus, evaluate
from tools.tiny_chat.corpus import Document
from tools.tiny_chat.tokenizer import CONTEXT_LENGTH, VOCAB_SIZE, build_tokenizer

SEED = 17
STEPS = 3000
TOKENS_A_STEP = 4096
WARM_UP = 150
PEAK_RATE = 2e-3
WEIGHT_DECAY = 0.1
EVALUATE_EVERY = 100
# One step in ten has rows as long as the context, the others a quarter of it.
LONG_EVERY = 10
TOKENIZER_DOCUMENTS = 20_000
# The early model is the first checkpoint whose share of right held-out sums is in this range.
EARLY_SHARE = (0.5, 0.8)


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Packed documents; B rows of T tokens.

    tokens:    [B, T] int64
    positions: [B, T] int64, from 0 in each document
    visible:   [B, 1, T, T] bool, causal within each document
    learnt:    [B, T] bool, whether the loss counts the *next* token
    """

    tokens: Tensor
    positions: Tensor
    visible: Tensor
    learnt: Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="output folder for both models")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(SEED)  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
    torch.set_num_threads(cast(int, args.threads))
    out = cast(Path, args.out)
    tokenizer = build_tokenizer(_tokenizer_texts())
    model = LlamaForCausalLM(model_config())
    early = train(model, tokenizer, cast(int, args.steps))
    report = {"tiny-chat": _publish(model, tokenizer, out / "tiny-chat")}
    model.load_state_dict(early)
    report["tiny-chat-early"] = _publish(model, tokenizer, out / "tiny-chat-early")
    print(json.dumps(report, indent=2))


def model_config() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT_LENGTH,
        initializer_range=0.05,
        tie_word_embeddings=True,
        pad_token_id=corpus.SPECIAL_TOKENS.index(corpus.PAD),
        bos_token_id=corpus.SPECIAL_TOKENS.index(corpus.BOS),
        eos_token_id=corpus.SPECIAL_TOKENS.index(corpus.END),
        dtype="float32",
    )


def train(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, steps: int
) -> dict[str, Tensor]:
    """Train in place, print progress, and return the weights of the early checkpoint."""
    optimizer = _optimizer(model)
    probes = evaluate.held_out_sums(random.Random(SEED), 200)
    counts = evaluate.counting(random.Random(SEED), 50)
    early: dict[str, Tensor] = {}
    nearest = math.inf
    began = time.monotonic()
    average = 0.0
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * _rate(step, steps)
        loss = loss_of(model, _batch(tokenizer, step))
        loss.backward()  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        average += (loss.item() - average) / min(step, 50)
        if step % EVALUATE_EVERY and step != steps:
            continue
        share = evaluate.accuracy(model.eval(), tokenizer, probes, max_new_tokens=16)
        counted = evaluate.accuracy(model, tokenizer, counts)
        model.train()
        if _distance(share) < nearest:
            nearest = _distance(share)
            early = {name: value.clone() for name, value in model.state_dict().items()}
        spent = time.monotonic() - began
        print(
            f"step {step}/{steps}  loss {average:.4f}"
            f"  held-out sums {share:.1%}  counting {counted:.0%}"
            f"  {step * TOKENS_A_STEP / spent:.0f} tokens/s"
            f"  {spent / step * (steps - step) / 60:.1f} min left",
            flush=True,
        )
    return early


def loss_of(model: LlamaForCausalLM, batch: Batch) -> Tensor:
    """Mean cross-entropy over the learnt tokens, a scalar; only their rows go through the head."""
    states = model.model(
        input_ids=batch.tokens,
        position_ids=batch.positions,
        attention_mask=batch.visible,
        use_cache=False,
    ).last_hidden_state
    rows, columns = batch.learnt.nonzero(as_tuple=True)
    logits = model.lm_head(states[rows, columns])
    return functional.cross_entropy(logits, batch.tokens[rows, columns + 1])


def load(folder: Path) -> LlamaForCausalLM:
    model = LlamaForCausalLM.from_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]  # open keywords
    return model.eval()


def _distance(share: float) -> float:
    low, high = EARLY_SHARE
    return max(low - share, share - high, 0.0)


def _rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a fiftieth of the peak."""
    if step < WARM_UP:
        return step / WARM_UP
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


def _optimizer(model: LlamaForCausalLM) -> torch.optim.Optimizer:
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    vectors = [weight for weight in model.parameters() if weight.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": WEIGHT_DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.98), fused=True)


def _tokenizer_texts() -> Iterator[str]:
    drawn = corpus.documents(random.Random(SEED), longest_turns=8)
    for document in itertools.islice(drawn, TOKENIZER_DOCUMENTS):
        yield "".join(segment.text for segment in document)


def _batch(tokenizer: PreTrainedTokenizerFast, step: int) -> Batch:
    """The batch of a step depends only on the seed and the step."""
    length = CONTEXT_LENGTH if step % LONG_EVERY == 0 else CONTEXT_LENGTH // 4
    drawn = corpus.documents(random.Random(f"{SEED} {step}"), longest_turns=length // 32)
    return pack(tokenizer, drawn, TOKENS_A_STEP // length, length)


def pack(
    tokenizer: PreTrainedTokenizerFast, drawn: Iterator[Document], rows: int, length: int
) -> Batch:
    """Fill `rows` rows with whole documents; documents longer than a row are omitted."""
    tokens = torch.full((rows, length), corpus.SPECIAL_TOKENS.index(corpus.PAD))
    owner = torch.full((rows, length), -1)
    positions = torch.zeros((rows, length), dtype=torch.int64)
    learnt = torch.zeros((rows, length), dtype=torch.bool)
    row = filled = 0
    for number, document in enumerate(drawn):
        ids, flags = _encoded(tokenizer, document)
        if len(ids) > length:
            continue
        if filled + len(ids) > length:
            row, filled = row + 1, 0
            if row == rows:
                break
        span = slice(filled, filled + len(ids))
        tokens[row, span] = torch.tensor(ids)
        owner[row, span] = number
        positions[row, span] = torch.arange(len(ids))
        learnt[row, span] = torch.tensor([*flags[1:], False])
        filled += len(ids)
    same = owner[:, :, None] == owner[:, None, :]
    visible = same & torch.ones((length, length), dtype=torch.bool).tril()
    return Batch(tokens=tokens, positions=positions, visible=visible[:, None], learnt=learnt)


def _encoded(
    tokenizer: PreTrainedTokenizerFast, document: Document
) -> tuple[list[int], list[bool]]:
    ids: list[int] = []
    flags: list[bool] = []
    for segment in document:
        part = tokenizer.backend_tokenizer.encode(segment.text, add_special_tokens=False).ids
        ids += part
        flags += [segment.learnt] * len(part)
    return ids, flags


def _publish(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> dict[str, float]:
    """Write a Hugging Face folder, and measure every ability of the saved model."""
    model.generation_config = GenerationConfig(
        bos_token_id=model.config.bos_token_id,
        eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id,
        do_sample=False,
    )
    model.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]  # open keywords
    tokenizer.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]  # open keywords
    written = load(folder)
    return {
        ability: evaluate.accuracy(written, tokenizer, probes)
        for ability, probes in evaluate.abilities(SEED + 1, 200).items()
    }


if __name__ == "__main__":
    main()
