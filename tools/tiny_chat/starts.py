"""Starting weights with two copying heads, which training sharpens.

A model this small does not discover in its training time that it can copy a name from the question
to a call; with heads that copy from the start, it learns what to copy.
https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads describes the circuit:
heads of the first layer write which tokens stand before each token; heads of the last layer attend
to the token that followed what the model wrote last, and make it more likely.
"""

import math
from typing import cast

import torch
from torch import Tensor
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM

ROPE_THETA = 500_000.0
"""Leaves `_SLOW` and later pairs of a head's dimensions nearly unturned over a conversation."""

_CONSTANT = 0
"""A dimension with the same value in all embeddings: attention by position needs a constant."""

_FAST = 6
"""Pairs of a head's dimensions that turn fast with the position, and tell neighbours apart."""

_SLOW = 6
"""The first pair that turns so slowly that a whole conversation is one place to it."""

# Found by trying: three of four random tokens are copied before training.
_SHARPNESS = 8.0
_MATCH = 10.0
_WRITE = 0.2
_COPY = 2.0
_QUIET = 0.1


def set_copying_heads(model: LlamaForCausalLM, config: LlamaConfig) -> None:
    """Overwrite the heads in place; all other layers start quiet, so as not to drown them."""
    width, size = config.hidden_size, config.hidden_size // config.num_attention_heads
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight *= _QUIET
        embeddings = weights["model.embed_tokens.weight"]
        embeddings[:, _CONSTANT] = 5 * config.initializer_range
        quarters = torch.tensor_split(_orthogonal(width, width), width // size, dim=1)
        written, values = quarters[:2], quarters[2:]
        read = torch.cat(values, dim=1) @ _orthogonal(2 * size, size)
        _remember(weights, config, read, written)
        _copy(weights, config, read, written, values)


def _remember(
    weights: dict[str, torch.nn.Parameter],
    config: LlamaConfig,
    read: Tensor,
    written: tuple[Tensor, ...],
) -> None:
    """First layer: two queries share a key-value head, and look one and two tokens back.

    read: [D, K], what of a token is remembered. written: two [D, K], where.
    """
    size = read.shape[1]
    embeddings = weights["model.embed_tokens.weight"]
    constant = 5 * config.initializer_range / float(embeddings.pow(2).mean().sqrt())
    layer = "model.layers.0.self_attn"
    _look_back(weights[f"{layer}.k_proj.weight"][:size], constant, size, back=0)
    for back in (1, 2):
        rows = slice((back - 1) * size, back * size)
        _look_back(weights[f"{layer}.q_proj.weight"][rows], constant, size, back=back)
        weights[f"{layer}.o_proj.weight"][:, rows] = _WRITE * written[back - 1]
    weights[f"{layer}.v_proj.weight"][:size] = read.T


def _copy(
    weights: dict[str, torch.nn.Parameter],
    config: LlamaConfig,
    read: Tensor,
    written: tuple[Tensor, ...],
    values: tuple[Tensor, ...],
) -> None:
    """Last layer: compare what stood before each token with the last two tokens, and copy."""
    width, size = read.shape
    layer = f"model.layers.{config.num_hidden_layers - 1}.self_attn"
    pairs = [*range(_SLOW, size // 2)]
    dims = [*pairs, *(pair + size // 2 for pair in pairs)]
    scale = _MATCH / math.sqrt(len(dims))
    for head, value in enumerate(values):
        one, two = (_orthogonal(size, len(dims)) for _ in range(2))
        key, query = torch.zeros(size, width), torch.zeros(size, width)
        key[dims] = scale * (one.T @ written[0].T + two.T @ written[1].T)
        query[dims] = scale * (one.T @ read.T + 0.7 * two.T @ written[0].T)
        rows = slice(head * size, (head + 1) * size)
        start = head * size * (config.num_attention_heads // len(values))
        asking = slice(start, start + size)
        weights[f"{layer}.k_proj.weight"][rows] = key
        weights[f"{layer}.q_proj.weight"][asking] = query
        weights[f"{layer}.v_proj.weight"][rows] = value.T
        weights[f"{layer}.o_proj.weight"][:, asking] = _COPY * value


def _look_back(weight: Tensor, constant: float, size: int, *, back: int) -> None:
    """Make a query (or, with `back` 0, a key) that meets the key `back` tokens earlier best."""
    weight.zero_()
    strength = math.sqrt(_SHARPNESS * math.sqrt(size)) / constant
    for pair in range(_FAST):
        angle = back * ROPE_THETA ** (-2 * pair / size)
        weight[pair, _CONSTANT] = strength * math.cos(angle)
        weight[pair + size // 2, _CONSTANT] = -strength * math.sin(angle)


def _orthogonal(rows: int, columns: int) -> Tensor:
    """Orthonormal columns, [rows, columns] with rows >= columns."""
    drawn = torch.randn(rows, columns)
    return cast(Tensor, torch.linalg.qr(drawn)[0])  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
