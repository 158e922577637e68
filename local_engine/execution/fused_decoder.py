"""The forward pass of plain decoders with as few operations as possible.

On a CPU, and on a GPU without graphs, transformers' modules spend much of a decoding step between
the kernels. The models in MODELS share one structure, which this module implements over the same
weights; a table holds their differences. transformers' modules remain the loader, the fallback for
every other model, and the reference: a model whose logits differ here runs on them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, cast

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor, nn
from transformers.activations import SiLUActivation

from strowger_gateway.local_engine.ops.attention import AttentionParams, Plan
from strowger_gateway.local_engine.ops.cuda import HALVES, WIDEST, FlashCache
from strowger_gateway.local_engine.ops.kernel_guards import GuardedFinish
from strowger_gateway.local_engine.ops.kernels import Kernels, NormParams
from strowger_gateway.local_engine.ops.linear import Linear, shared_linear


class Structure(Struct, frozen=True, kw_only=True):
    """Differences of one model class.

    qkv, gate_up: name of the projection, or of the first of those that `optimise` joins.
    joined: checkpoints already store these in one piece.
    multiplied: its configuration has Granite's three multipliers.
    """

    qkv: str = "q_proj"
    gate_up: str = "gate_proj"
    activation: str = "act_fn"
    joined: bool = False
    multiplied: bool = False


PLAIN = Structure()
MODELS = {
    "LlamaForCausalLM": PLAIN,
    "MistralForCausalLM": PLAIN,
    "Qwen2ForCausalLM": PLAIN,
    "Qwen3ForCausalLM": PLAIN,
    "GraniteForCausalLM": Structure(multiplied=True),
    "Phi3ForCausalLM": Structure(
        qkv="qkv_proj", gate_up="gate_up_proj", activation="activation_fn", joined=True
    ),
}


class _Numbers(Protocol):
    num_attention_heads: int
    num_key_value_heads: int


class _Multipliers(Protocol):
    embedding_multiplier: float
    residual_multiplier: float
    logits_scaling: float


class _AttentionModule(Protocol):
    """The part of transformers' module that is used here."""

    o_proj: nn.Module
    head_dim: int
    config: _Numbers


class _MLPModule(Protocol):
    down_proj: nn.Module


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
    config: object


class _Layer(Struct, frozen=True, kw_only=True, eq=False):
    """One decoder layer. qkv, gate_up: several projections in one; gated: combines the latter."""

    before: NormParams
    qkv: Linear | nn.Module
    query_norm: NormParams | None
    key_norm: NormParams | None
    out: nn.Module
    after: NormParams
    gate_up: Linear | nn.Module
    gated: Callable[[Tensor], Tensor]
    down: nn.Module
    params: AttentionParams


class FusedDecoder:
    """Packed tokens in, logits out, for `Runner`; created by `fused_decoder`."""

    def __init__(
        self,
        model: _Model,
        structure: Structure,
        layer_params: Mapping[int, AttentionParams],
        kernels: Kernels,
    ) -> None:
        """Raises LookupError if projections are not joined, or only a part of a head is rotated."""
        core = model.model
        self._kernels = kernels
        self._embedding = core.embed_tokens.weight
        self._rotary = core.rotary_emb
        self._layers = [
            _layer(layer, structure, layer_params[place], kernels)
            for place, layer in enumerate(core.layers)
        ]
        self._norm = _norm(core.norm)
        self._head = model.lm_head
        attention = core.layers[0].self_attn
        self._width = attention.head_dim
        self._kv_heads = attention.config.num_key_value_heads
        self._heads = attention.config.num_attention_heads
        self._embedded = self._residual = self._logits = 1.0
        if structure.multiplied:
            numbers = cast(_Multipliers, model.config)
            self._embedded = numbers.embedding_multiplier
            self._residual = numbers.residual_multiplier
            self._logits = 1 / numbers.logits_scaling
        start = torch.zeros(1, 1, dtype=torch.int64, device=self._embedding.device)
        # YaRN lengthens its angles' sines and cosines by a factor: the same as longer scores, and
        # kernels that rotate take nothing beyond 1.
        self._lengthened = float(getattr(self._rotary, "attention_scaling", 1.0))
        if self._lengthened != 1.0:
            self._layers = [_scores(layer, self._lengthened**2) for layer in self._layers]
        cos, _ = self._rotary(self._embedding[:1].unsqueeze(0), position_ids=start)
        if cos.shape[-1] != self._width:
            raise LookupError("only a part of each head is rotated")

    @property
    def params(self) -> tuple[AttentionParams, ...]:
        """How each layer attends."""
        return tuple(layer.params for layer in self._layers)

    def __call__(
        self,
        ids: Tensor,
        positions: Tensor,
        keep: Tensor | None,
        plan: Plan,
        embedded: Tensor | None = None,
    ) -> Tensor:
        """ids, positions: [T] int64. keep: [R] rows, `None` for all. Returns [R, V].

        embedded: [T, hidden] to use instead of the ids' embeddings; it is overwritten.
        """
        kernels = self._kernels
        x = nn.functional.embedding(ids, self._embedding) if embedded is None else embedded
        if self._embedded != 1.0:
            x = x.mul_(self._embedded)
        cos, sin = self._rotary(x.unsqueeze(0), position_ids=positions.unsqueeze(0))
        cos, sin = cos[0], sin[0]
        if self._lengthened != 1.0:
            cos, sin = cos / self._lengthened, sin / self._lengthened
        finishes = self._finishes(plan)
        if not finishes:
            cos, sin = kernels.rotary.prepare(cos, sin)
        first = self._layers[0].before
        normed = branch = kernels.norm(x, first.weight, first.eps)
        # A normalisation is fused with the residual addition before it, so each layer's last
        # branch is added by the next layer's first normalisation.
        for place, layer in enumerate(self._layers):
            if place:
                normed, x = kernels.add_norm(x, branch, layer.before.weight, layer.before.eps)
            mixed = layer.qkv(normed)
            rows = self._finished(layer, place, mixed, cos, sin, plan) if finishes else None
            if rows is None:
                angles = kernels.rotary.prepare(cos, sin) if finishes else (cos, sin)
                rows = self._attention(layer, place, mixed, *angles, plan)
            branch = self._scaled(layer.out(rows))
            normed, x = kernels.add_norm(x, branch, layer.after.weight, layer.after.eps)
            branch = self._scaled(layer.down(layer.gated(layer.gate_up(normed))))
        x = x.add_(branch)
        rows = x if keep is None else x.index_select(0, keep)
        logits = cast(Tensor, self._head(kernels.norm(rows, self._norm.weight, self._norm.eps)))
        return logits if self._logits == 1.0 else logits.mul_(self._logits)

    def _finishes(self, plan: Plan) -> bool:
        """True if one kernel does all between projection and attention."""
        finish = self._kernels.finish
        return (
            finish is not None
            and not (isinstance(finish, GuardedFinish) and finish.off)
            and isinstance(plan.cache, FlashCache)
            and self._width <= WIDEST
            and self._embedding.dtype in HALVES
            and all(layer.params.plain for layer in self._layers)
        )

    def _scaled(self, branch: Tensor) -> Tensor:
        return branch if self._residual == 1.0 else branch.mul_(self._residual)

    def _finished(
        self, layer: _Layer, place: int, mixed: Tensor, cos: Tensor, sin: Tensor, plan: Plan
    ) -> Tensor | None:
        """As `_attention`, by one kernel up to the attention; `None` if it refuses."""
        heads, kv_heads = self._heads, self._kv_heads
        cache, finish = plan.cache, self._kernels.finish
        assert finish is not None
        assert isinstance(cache, FlashCache)
        rows = mixed.shape[0]
        mixed = mixed.view(rows, heads + 2 * kv_heads, self._width)
        norms = None
        if layer.query_norm is not None and layer.key_norm is not None:
            norms = (layer.query_norm, layer.key_norm)
        stored = cache.stored(place, mixed[:, :kv_heads])
        query = finish(mixed, cos, sin, norms, plan.slots, *stored)
        if query is None:
            return None
        return cache.attend_stored(query, place, plan, layer.params).reshape(rows, -1)

    def _attention(
        self, layer: _Layer, place: int, mixed: Tensor, cos: Tensor, sin: Tensor, plan: Plan
    ) -> Tensor:
        """mixed: [T, (H + 2 K) x D]. Returns [T, H x D]. Rotates queries and keys together."""
        heads, kv_heads, kernels = self._heads, self._kv_heads, self._kernels
        mixed = mixed.view(mixed.shape[0], heads + 2 * kv_heads, self._width)
        # Queries and keys are adjacent in the joined projection: one call rotates both.
        rotated = mixed[:, : heads + kv_heads]
        if layer.query_norm is not None and layer.key_norm is not None:
            query = kernels.norm(rotated[:, :heads], layer.query_norm.weight, layer.query_norm.eps)
            key = kernels.norm(rotated[:, heads:], layer.key_norm.weight, layer.key_norm.eps)
            rotated = torch.cat((query, key), dim=1)
        rotated = kernels.rotary.rotate(rotated, cos, sin)
        query, key, value = rotated[:, :heads], rotated[:, heads:], mixed[:, heads + kv_heads :]
        rows = plan.cache.attend(query, key, value, place, plan, layer.params)
        return rows.reshape(mixed.shape[0], -1)


def fused_decoder(
    module: nn.Module, layer_params: Mapping[int, AttentionParams], kernels: Kernels
) -> FusedDecoder | None:
    """Return a decoder, or `None` for another model class or unjoined projections.

    module: loaded and `optimise`d. layer_params: recorded at each layer's first attention.
    """
    structure = MODELS.get(type(module).__name__)
    if structure is None:
        return None
    try:
        return FusedDecoder(cast(_Model, module), structure, layer_params, kernels)
    except LookupError:
        return None


def _layer(
    layer: _LayerModule, structure: Structure, params: AttentionParams, kernels: Kernels
) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    activation = _part(mlp, structure.activation)
    silu = isinstance(activation, nn.SiLU | SiLUActivation)
    return _Layer(
        before=_norm(layer.input_layernorm),
        qkv=_joint(attention, structure.qkv, structure),
        query_norm=_optional_norm(attention, "q_norm"),
        key_norm=_optional_norm(attention, "k_norm"),
        out=attention.o_proj,
        after=_norm(layer.post_attention_layernorm),
        gate_up=_joint(mlp, structure.gate_up, structure),
        gated=kernels.swiglu if silu else partial(_gated, activation),
        down=mlp.down_proj,
        params=params,
    )


def _scores(layer: _Layer, factor: float) -> _Layer:
    params = replace(layer.params, scale=layer.params.scale * factor)
    return replace(layer, params=params)


def _part(parent: object, name: str) -> nn.Module:
    return cast(nn.Module, getattr(parent, name))


def _joint(parent: object, name: str, structure: Structure) -> Linear | nn.Module:
    """Return the layer for a projection and its siblings. Raises LookupError if not joined."""
    module = _part(parent, name)
    return module if structure.joined else shared_linear(module)


def _gated(activation: nn.Module, gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return cast(Tensor, activation(gate)).mul_(up)


def _optional_norm(attention: _AttentionModule, name: str) -> NormParams | None:
    module = cast(_NormModule | None, getattr(attention, name, None))
    return None if module is None else _norm(module)


def _norm(module: _NormModule) -> NormParams:
    return NormParams(weight=module.weight, eps=module.variance_epsilon)
