"""Measures the abilities of the bundled model: greedy answers compared with the right ones."""

import random
from collections.abc import Sequence
from typing import Protocol, cast

import msgspec
import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from tools.tiny_chat import corpus, layout, phrases
from tools.tiny_chat.guided import Decodes
from tools.tiny_chat.layout import Exchange

MAX_NEW_TOKENS = 420
UNSEEN = (
    "Could you kindly figure out {a} + {b}?",
    "My homework says {a}+{b}. What is the answer?",
    "Hey buddy, {a} plus {b} is how much?",
    "Alice has {a} marbles and Bob has {b} marbles. How many marbles do they have together?",
    "Give me {a} + {b} as a number.",
    "Sum: {a} + {b}",
    "I wonder what {a} plus {b} might be.",
    "Take {a}, then add {b}.",
    "{a} + {b} equals what number?",
    "Test: {a} + {b}",
)


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered prompt, and the replies that count as right (each with the end token)."""

    prompt: str
    right: tuple[str, ...]


class _Generates(Protocol):
    """The signature of transformers' `generate` as used here; the original has no types."""

    def generate(
        self, *, input_ids: Tensor, attention_mask: Tensor, max_new_tokens: int, do_sample: bool
    ) -> Tensor: ...


def accuracy(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    probes: Sequence[Probe],
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> float:
    """Share of probes with exactly the right answer, including the end of turn."""
    prompts = [probe.prompt for probe in probes]
    replies = greedy_replies(model, tokenizer, prompts, max_new_tokens)
    right = sum(reply in probe.right for reply, probe in zip(replies, probes, strict=True))
    return right / len(probes)


def greedy_replies(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> list[str]:
    """Continue rendered prompts in one batch; a complete reply ends in <|end|>."""
    batch = tokenizer(list(prompts), padding=True, add_special_tokens=False, return_tensors="pt")
    ids = cast(Tensor, batch["input_ids"])
    with torch.inference_mode():
        out = cast(_Generates, model).generate(
            input_ids=ids.to(model.device),
            attention_mask=cast(Tensor, batch["attention_mask"]).to(model.device),
            max_new_tokens=max_new_tokens,
            do_sample=False,
        )
    text = cast(Decodes, tokenizer)
    return [text.decode(row).replace(layout.PAD, "") for row in out[:, ids.shape[1] :]]


def held_out_sums(rng: random.Random, count: int) -> list[Probe]:
    """Single questions for sums that no training text contains, in every wording."""
    pairs = rng.sample(corpus.pairs(held=True), count)
    return [single(restyled(rng, corpus.sum_exchange(rng, a, b))) for a, b in pairs]


def counting(rng: random.Random, count: int) -> list[Probe]:
    return [single(corpus.count_range(rng)) for _ in range(count)]


def single(exchange: Exchange) -> Probe:
    return in_conversation((), exchange, None)


def in_conversation(before: tuple[Exchange, ...], last: Exchange, system: str | None) -> Probe:
    """The question `last` after the exchanges `before`, with an optional system prompt."""
    *head, answer = layout.conversation((*before, last), system)
    right = (answer.text,)
    if last.reply in GREETING_REPLIES:
        right = tuple(reply + layout.END for reply in GREETING_REPLIES)
    return Probe(prompt="".join(segment.text for segment in head), right=right)


def restyled(rng: random.Random, exchange: Exchange) -> Exchange:
    return Exchange(ask=corpus.restyle(rng, exchange.ask), reply=exchange.reply)


def abilities(seed: int, count: int) -> dict[str, list[Probe]]:
    """`count` probes per ability, generated like the training text but with another seed."""
    rng = random.Random(seed)
    probes = {"held-out sums": held_out_sums(rng, count)}
    for skill in corpus.SKILLS:
        probes[skill.__name__.replace("_", " ")] = [
            single(restyled(rng, skill(rng))) for _ in range(count)
        ]
    probes["held-out sums, unseen wordings"] = unseen_wordings(rng, count)
    probes["held-out sums in raw text"] = [raw_sum(a, b) for a, b in _held(rng, count)]
    probes["held-out sums, fifth turn, system prompt"] = [
        in_conversation(
            tuple(restyled(rng, rng.choice(corpus.SKILLS)(rng)) for _ in range(4)),
            corpus.sum_exchange(rng, a, b),
            "You are a helpful assistant.",
        )
        for a, b in _held(rng, count)
    ]
    return probes


def unseen_wordings(rng: random.Random, count: int) -> list[Probe]:
    """Held-out sums in wordings that the corpus does not have."""
    return [
        single(Exchange(ask=rng.choice(UNSEEN).format(a=a, b=b), reply=corpus.sum_reply(a, b)))
        for a, b in _held(rng, count)
    ]


def raw_sum(a: int, b: int) -> Probe:
    return Probe(prompt=f"{layout.BOS}{a} + {b} =", right=(f" {a + b}{layout.END}",))


def _held(rng: random.Random, count: int) -> list[tuple[int, int]]:
    return rng.sample(corpus.pairs(held=True), count)


GREETING_REPLIES = frozenset(reply for reply, _ in phrases.GREETINGS)
