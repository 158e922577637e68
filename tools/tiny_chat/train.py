"""Train the bundled models from scratch: `python -m tools.tiny_chat.train --out FOLDER`."""

import argparse
import itertools
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import msgspec
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from transformers.generation.configuration_utils import GenerationConfig
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from tools.tiny_chat import documents, evaluate, layout, starts, tool_probes
from tools.tiny_chat.documents import Mix
from tools.tiny_chat.layout import Document
from tools.tiny_chat.muon import Muon
from tools.tiny_chat.tokenizer import CONTEXT_LENGTH, VOCAB_SIZE, build_tokenizer

SEED = 17
TOKENS_A_STEP = 4096
WEIGHT_DECAY = 0.1
EVALUATE_EVERY = 200
CALL_EVERY = 3000
# One step in ten has rows as long as the context, the others half of it.
LONG_EVERY = 10
SHORT = CONTEXT_LENGTH // 2
TOKENIZER_DOCUMENTS = 20_000
# The early model is the first checkpoint whose share of right held-out sums is in this range.
EARLY_SHARE = (0.5, 0.8)


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Packed documents; B rows of T tokens.

    tokens:    [B, T] int64
    positions: [B, T] int64, from 0 in each document
    owner:     [B, T] int64, the document of each token
    learnt:    [B, T] bool, whether the loss counts the *next* token
    """

    tokens: Tensor
    positions: Tensor
    owner: Tensor
    learnt: Tensor

    def to(self, device: torch.device) -> "Batch":
        return Batch(
            tokens=self.tokens.to(device),
            positions=self.positions.to(device),
            owner=self.owner.to(device),
            learnt=self.learnt.to(device),
        )


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How long and on what to train.

    height:    of the peak of the learning rates, as a share of the highest.
    warm_up:   steps until they are at their peak.
    cool_down: share of the steps in which they sink, at the end.
    mix:       of the documents.
    seed:      of the text.
    """

    steps: int
    height: float
    warm_up: int
    cool_down: float
    mix: Mix
    seed: int

    def rate(self, step: int) -> float:
        """A learning rate as a share of the highest: rise linearly, stay, sink to a fiftieth."""
        sinking = 0.02 + 0.98 * (self.steps - step) / (self.cool_down * self.steps)
        return self.height * min(step / self.warm_up, 1.0, sinking)


PLAN = Plan(steps=7000, height=1.0, warm_up=200, cool_down=0.5, mix=documents.MIX, seed=SEED)
CONTINUED = Plan(
    steps=2000, height=0.4, warm_up=100, cool_down=1.0, mix=documents.MIX, seed=SEED + 1
)
PEAK, PEAK_OF_MATRICES = 3e-3, 4e-3


class _States(Protocol):
    """The model's layers without the head, compiled or not."""

    def __call__(
        self, *, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor, use_cache: bool
    ) -> BaseModelOutputWithPast: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="output folder for both models")
    parser.add_argument(
        "--start", type=Path, help="continue from the model in this folder, and keep its tokenizer"
    )
    parser.add_argument("--steps", type=int, help=f"{PLAN.steps}, or {CONTINUED.steps} continued")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--workers", type=int, default=0, help="processes that write the text")
    parser.add_argument("--eager", action="store_true", help="do not compile: slower, no compiler")
    args = parser.parse_args()
    torch.manual_seed(SEED)  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
    torch.set_num_threads(cast(int, args.threads))
    out = cast(Path, args.out)
    start = cast(Path | None, args.start)
    if start is None:
        plan, tokenizer = PLAN, build_tokenizer(_tokenizer_texts())
        model = LlamaForCausalLM(model_config())
        starts.set_copying_heads(model, model_config())
    else:
        plan, tokenizer, model = CONTINUED, _tokenizer_in(start), load(start).train()
    _move(model, torch.device(cast(str, args.device)))
    plan = msgspec.structs.replace(plan, steps=cast(int | None, args.steps) or plan.steps)
    early = train(
        model, tokenizer, plan, workers=cast(int, args.workers), eager=cast(bool, args.eager)
    )
    weights = {"tiny-chat": {name: value.clone() for name, value in model.state_dict().items()}}
    if start is None:
        weights["tiny-chat-early"] = early
    for name, state in weights.items():
        model.load_state_dict(state)
        _write(model, tokenizer, out / name)
    print(f"the weights are in {out}; measuring them", flush=True)
    report = {name: _measured(out / name, model.device) for name in weights}
    print(json.dumps(report, indent=2))


def model_config() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT_LENGTH,
        initializer_range=0.05,
        rope_parameters={"rope_type": "default", "rope_theta": starts.ROPE_THETA},
        tie_word_embeddings=True,
        pad_token_id=layout.SPECIAL_TOKENS.index(layout.PAD),
        bos_token_id=layout.SPECIAL_TOKENS.index(layout.BOS),
        eos_token_id=layout.SPECIAL_TOKENS.index(layout.END),
        dtype="float32",
    )


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    plan: Plan,
    *,
    workers: int = 0,
    eager: bool = False,
) -> dict[str, Tensor]:
    """Train in place, print progress, and return the weights of the early checkpoint.

    workers: processes that write the text; with none, the training waits for it.
    eager: do without the compiled forward pass, which needs a C++ compiler and halves the time.
    """
    adam, muon = _optimizers(model)
    states_of = cast(_States, model.model if eager else torch.compile(model.model, dynamic=False))  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
    probes = evaluate.held_out_sums(random.Random(SEED), 200)
    early: dict[str, Tensor] = {}
    nearest = math.inf
    began = time.monotonic()
    losses = torch.zeros(())
    steps = plan.steps
    batches = DataLoader(Batches(tokenizer, plan), batch_size=None, num_workers=workers)
    for step, batch in enumerate(batches, start=1):
        for group in adam.param_groups:
            group["lr"] = PEAK * plan.rate(step)
        loss = loss_of(model, states_of, batch.to(model.device))
        loss.backward()  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        muon.step(PEAK_OF_MATRICES * plan.rate(step))
        model.zero_grad()
        losses = losses.to(loss.device) + loss.detach()
        if step % EVALUATE_EVERY and step != steps:
            continue
        share = evaluate.accuracy(model.eval(), tokenizer, probes, max_new_tokens=16)
        called = "" if step % CALL_EVERY else _calls(model, tokenizer)
        model.train()
        if _distance(share) < nearest:
            nearest = _distance(share)
            early = {name: value.cpu().clone() for name, value in model.state_dict().items()}
        spent = time.monotonic() - began
        print(
            f"step {step}/{steps}  loss {losses.item() / EVALUATE_EVERY:.4f}"
            f"  held-out sums {share:.1%}  {called}"
            f"  {step * TOKENS_A_STEP / spent:.0f} tokens/s"
            f"  {spent / step * (steps - step) / 60:.1f} min left",
            flush=True,
        )
        losses = torch.zeros(())
    return early


def _calls(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> str:
    """A line on how well the model calls functions."""
    shares = (
        f"{name} {tool_probes.accuracy(model, tokenizer, asked):.0%}"
        for name, asked in tool_probes.probes(SEED, 20).items()
    )
    return "  ".join(shares)


def loss_of(model: LlamaForCausalLM, states_of: _States, batch: Batch) -> Tensor:
    """Mean cross-entropy over the learnt tokens, a scalar; only their rows go through the head."""
    same = batch.owner[:, None, :, None] == batch.owner[:, None, None, :]
    causal = torch.ones(same.shape[-2:], dtype=torch.bool, device=same.device).tril()
    states = states_of(
        input_ids=batch.tokens,
        position_ids=batch.positions,
        attention_mask=same & causal,
        use_cache=False,
    ).last_hidden_state
    assert states is not None
    rows, columns = batch.learnt.nonzero(as_tuple=True)
    logits = model.lm_head(states[rows, columns])
    return functional.cross_entropy(logits, batch.tokens[rows, columns + 1])


def load(folder: Path) -> LlamaForCausalLM:
    model = LlamaForCausalLM.from_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]  # open keywords
    return model.eval()


def _move(model: torch.nn.Module, device: torch.device) -> None:
    model.to(device)


def _distance(share: float) -> float:
    low, high = EARLY_SHARE
    return max(low - share, share - high, 0.0)


def _optimizers(model: LlamaForCausalLM) -> tuple[torch.optim.Optimizer, Muon]:
    """Muon for the matrices of the layers, which halves the loss that AdamW reaches in the same
    steps, and AdamW for the rest.
    """
    matrices: list[torch.nn.Parameter] = []
    embeddings: list[torch.nn.Parameter] = []
    vectors: list[torch.nn.Parameter] = []
    for name, weight in model.named_parameters():
        group = vectors if weight.dim() == 1 else embeddings if "embed" in name else matrices
        group.append(weight)
    groups: list[dict[str, object]] = [
        {"params": embeddings, "weight_decay": WEIGHT_DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=PEAK, betas=(0.9, 0.98), fused=True)
    return adam, Muon(matrices, weight_decay=WEIGHT_DECAY)


def _tokenizer_texts() -> Iterator[str]:
    drawn = documents.documents(random.Random(SEED), longest_turns=8)
    for document in itertools.islice(drawn, TOKENIZER_DOCUMENTS):
        yield "".join(segment.text for segment in document)


class Batches(Dataset[Batch]):
    """The batch of a step depends only on the seed, the step and the mix."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, plan: Plan) -> None:
        self._tokenizer, self._plan = tokenizer, plan

    def __len__(self) -> int:
        return self._plan.steps

    def __getitem__(self, step: int) -> Batch:
        length = CONTEXT_LENGTH if step % LONG_EVERY == 0 else SHORT
        rng = random.Random(f"{self._plan.seed} {step}")
        drawn = documents.documents(rng, longest_turns=length // 32, mix=self._plan.mix)
        return pack(self._tokenizer, drawn, TOKENS_A_STEP // length, length)


def pack(
    tokenizer: PreTrainedTokenizerFast, drawn: Iterator[Document], rows: int, length: int
) -> Batch:
    """Fill `rows` rows with whole documents; documents longer than a row are omitted."""
    tokens = torch.full((rows, length), layout.SPECIAL_TOKENS.index(layout.PAD))
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
    return Batch(tokens=tokens, positions=positions, owner=owner, learnt=learnt)


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


def _tokenizer_in(folder: Path) -> PreTrainedTokenizerFast:
    return cast(PreTrainedTokenizerFast, PreTrainedTokenizerFast.from_pretrained(folder))  # pyright: ignore[reportUnknownMemberType]  # open keywords


def _write(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a Hugging Face folder."""
    model.generation_config = GenerationConfig(
        bos_token_id=model.config.bos_token_id,
        eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id,
        do_sample=False,
    )
    model.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]  # open keywords
    tokenizer.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]  # open keywords


def _measured(folder: Path, device: torch.device) -> dict[str, float]:
    """The share of right answers in every ability of a saved model."""
    model, tokenizer = load(folder), _tokenizer_in(folder)
    _move(model, device)
    own = {
        ability: evaluate.accuracy(model, tokenizer, probes)
        for ability, probes in evaluate.abilities(SEED + 1, 200).items()
    }
    called = {
        ability: tool_probes.accuracy(model, tokenizer, probes)
        for ability, probes in tool_probes.probes(SEED + 1, 200).items()
    }
    return own | called


if __name__ == "__main__":
    main()
