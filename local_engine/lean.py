"""The forward pass of plain decoders in as few operations as they need.

On a CPU, and on a GPU without graphs, a decoding step of transformers' modules spends much of its
time between the kernels. Llama, Mistral, Qwen2 and Qwen3 share one structure, which is written out
here over the same weights. transformers' own modules stay the loader, the fallback for every other
model, and the oracle: a model whose logits differ here is run by them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, cast

import torch
from msgspec import Struct
from torch import Tensor, nn
from transformers.activations import SiLUActivation

from local_engine.ops.attention import Ask, Plan
from local_engine.ops.kernels import Kernels
from local_engine.ops.linear import Linear, shared_linear

MODELS = frozenset(
    {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
)


class _HeadCounts(Protocol):
    num_attention_heads: int
    num_key_value_heads: int


class _AttentionModule(Protocol):
    """transformers' structure, as far as it is read here."""

    q_proj: nn.Module
    o_proj: nn.Module
    head_dim: int
    config: _HeadCounts


class _MLPModule(Protocol):
    gate_proj: nn.Module
    down_proj: nn.Module
    act_fn: nn.Module


class _NormModule(Protocol):
    weight: Tensor
    variance_epsilon: float


class _LayerModule(Protocol):
    input_layernorm: _NormModule
    self_attn: _AttentionModule
    post_attention_layernorm: _NormModule
    mlp: _MLPModule


class _EmbeddingModule(Protocol):
    weight: Tensor


class _Core(Protocol):
    embed_tokens: _EmbeddingModule
    rotary_emb: nn.Module
    layers: Sequence[_LayerModule]
    norm: _NormModule


class _Model(Protocol):
    model: _Core
    lm_head: nn.Module


class _Norm(Struct, frozen=True, kw_only=True, eq=False):
    """What a normalisation of the kernels is told."""

    weight: Tensor
    eps: float


class _Layer(Struct, frozen=True, kw_only=True, eq=False):
    """One decoder layer. qkv and gate_up are several projections in one; gated joins the latter."""

    before: _Norm
    qkv: Linear
    query_norm: _Norm | None
    key_norm: _Norm | None
    out: nn.Module
    after: _Norm
    gate_up: Linear
    gated: Callable[[Tensor], Tensor]
    down: nn.Module
    ask: Ask


class LeanDecoder:
    """Packed tokens in, logits out, as `Runner` wants it; made by `lean_decoder`."""

    def __init__(self, model: _Model, asks: Mapping[int, Ask], kernels: Kernels) -> None:
        """Raises LookupError if projections of the model stand alone."""
        core = model.model
        self._kernels = kernels
        self._embedding = core.embed_tokens.weight
        self._rotary = core.rotary_emb
        self._layers = [
            _layer(layer, asks[place], kernels) for place, layer in enumerate(core.layers)
        ]
        self._norm = _norm(core.norm)
        self._head = model.lm_head
        attention = core.layers[0].self_attn
        self._width = attention.head_dim
        self._kv_heads = attention.config.num_key_value_heads
        self._heads = attention.config.num_attention_heads

    def __call__(
        self,
        ids: Tensor,
        positions: Tensor,
        keep: Tensor | None,
        plan: Plan,
        embedded: Tensor | None = None,
    ) -> Tensor:
        """ids, positions: [T] int64. keep: [R] rows, `None` for all. Returns [R, V].

        embedded: [T, hidden] to go in instead of the ids' embeddings; it is written to.
        """
        kernels = self._kernels
        x = nn.functional.embedding(ids, self._embedding) if embedded is None else embedded
        cos, sin = self._rotary(x.unsqueeze(0), position_ids=positions.unsqueeze(0))
        cos, sin = kernels.rotary.prepare(cos[0], sin[0])
        first = self._layers[0].before
        normed = branch = kernels.norm(x, first.weight, first.eps)
        for place, layer in enumerate(self._layers):
            if place:
                normed, x = kernels.add_norm(x, branch, layer.before.weight, layer.before.eps)
            branch = layer.out(self._attention(layer, place, normed, cos, sin, plan))
            normed, x = kernels.add_norm(x, branch, layer.after.weight, layer.after.eps)
            branch = layer.down(layer.gated(layer.gate_up(normed)))
        x = x.add_(branch)
        rows = x if keep is None else x.index_select(0, keep)
        return self._head(kernels.norm(rows, self._norm.weight, self._norm.eps))

    def _attention(
        self, layer: _Layer, place: int, x: Tensor, cos: Tensor, sin: Tensor, plan: Plan
    ) -> Tensor:
        """x: [T, E], normalised. Returns [T, H x D]. Queries and keys are rotated together."""
        heads, kv_heads, kernels = self._heads, self._kv_heads, self._kernels
        mixed = layer.qkv(x).view(x.shape[0], heads + 2 * kv_heads, self._width)
        turned = mixed[:, : heads + kv_heads]
        if layer.query_norm is not None and layer.key_norm is not None:
            query = kernels.norm(turned[:, :heads], layer.query_norm.weight, layer.query_norm.eps)
            key = kernels.norm(turned[:, heads:], layer.key_norm.weight, layer.key_norm.eps)
            turned = torch.cat((query, key), dim=1)
        turned = kernels.rotary.turn(turned, cos, sin)
        query, key, value = turned[:, :heads], turned[:, heads:], mixed[:, heads + kv_heads :]
        rows = plan.cache.attend(query, key, value, place, plan, layer.ask)
        return rows.reshape(x.shape[0], -1)


def lean_decoder(
    module: nn.Module, asks: Mapping[int, Ask], kernels: Kernels
) -> LeanDecoder | None:
    """`None` for a model of another kind, or one whose projections could not be joined.

    module: loaded, and `optimise`d. asks: what each of its layers said when it first attended.
    """
    if type(module).__name__ not in MODELS:
        return None
    try:
        return LeanDecoder(cast(_Model, module), asks, kernels)
    except LookupError:
        return None


def _layer(layer: _LayerModule, ask: Ask, kernels: Kernels) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    silu = isinstance(mlp.act_fn, nn.SiLU | SiLUActivation)
    return _Layer(
        before=_norm(layer.input_layernorm),
        qkv=shared_linear(attention.q_proj),
        query_norm=_optional_norm(attention, "q_norm"),
        key_norm=_optional_norm(attention, "k_norm"),
        out=attention.o_proj,
        after=_norm(layer.post_attention_layernorm),
        gate_up=shared_linear(mlp.gate_proj),
        gated=kernels.swiglu if silu else partial(_gated, mlp.act_fn),
        down=mlp.down_proj,
        ask=ask,
    )


def _gated(activation: nn.Module, gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return cast(Tensor, activation(gate)).mul_(up)


def _optional_norm(attention: _AttentionModule, name: str) -> _Norm | None:
    module = cast(_NormModule | None, getattr(attention, name, None))
    return None if module is None else _norm(module)


def _norm(module: _NormModule) -> _Norm:
    return _Norm(weight=module.weight, eps=module.variance_epsilon)
