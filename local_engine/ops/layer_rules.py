"""What a model's layers need that its code gives the attention only as a mask, or not at all.

transformers' modules pass a window to their attention, but a chunk (Llama 4) only in the mask that
this engine replaces. Llama 4 also scales its queries by their positions, which it counts from the
beginning of the packed step: the engine takes this over, with each token's own position.
"""

# transformers annotates its configurations in part only:
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

import torch
from msgspec import Struct
from torch import Tensor, nn

if TYPE_CHECKING:  # seconds of import that `strowger doctor` would take
    from transformers.configuration_utils import PreTrainedConfig

LAYER_TYPES: Final = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
"""The kinds of layers that the engine computes."""


class UnknownLayers(ValueError):
    """A model has layers of a kind that the engine does not compute."""


class Temperature(Struct, frozen=True, kw_only=True):
    """Queries grow with their position p by log1p(floor((p + 1) / floor)) · scale + 1.

    https://arxiv.org/abs/2501.19399, as Llama 4 uses it. floor: in tokens.
    """

    floor: float
    scale: float

    def scaled(self, query: Tensor, positions: Tensor) -> Tensor:
        """query: [1, H, T, D]; positions: [T]. Returns the shape and dtype of `query`."""
        steps = torch.floor((positions.to(torch.float32) + 1.0) / self.floor)
        factors = torch.log1p(steps) * self.scale + 1.0
        return (query * factors.view(1, 1, -1, 1)).to(query.dtype)


class LayerRule(Struct, frozen=True, kw_only=True):
    """chunk: see `AttentionParams`, 0 without. temperature: of its queries."""

    chunk: int = 0
    temperature: Temperature | None = None


NO_RULES: Final[Mapping[int, LayerRule]] = MappingProxyType({})


def check_layers(config: "PreTrainedConfig") -> None:
    """Raises UnknownLayers, naming the kinds that the engine does not compute.

    config: of the text model.
    """
    kinds = cast(Sequence[str] | None, getattr(config, "layer_types", None)) or ()
    unknown = sorted({str(kind) for kind in kinds} - LAYER_TYPES)
    if unknown:
        raise UnknownLayers(
            f"its layers are of the kind {', '.join(unknown)}; "
            f"this engine computes {', '.join(sorted(LAYER_TYPES))}"
        )


def rules_of(module: nn.Module, config: "PreTrainedConfig") -> Mapping[int, LayerRule]:
    """Return the rules of the layers that have any.

    module: the loaded model. config: of its text model. Changes nothing: `take_over` does.
    """
    kinds = cast(Sequence[str] | None, getattr(config, "layer_types", None)) or ()
    chunk = getattr(config, "attention_chunk_size", None) or 0
    tempered = {
        cast(int, one.layer_idx): Temperature(
            floor=float(cast(float, one.floor_scale)), scale=float(cast(float, one.attn_scale))
        )
        for one in _tempered(module)
    }
    rules: dict[int, LayerRule] = {}
    for layer in range(int(config.num_hidden_layers)):
        chunked = layer < len(kinds) and kinds[layer] == "chunked_attention"
        rule = LayerRule(chunk=int(chunk) if chunked else 0, temperature=tempered.get(layer))
        if rule.chunk or rule.temperature is not None:
            rules[layer] = rule
    return rules


def take_over(module: nn.Module, *, taken: bool) -> None:
    """Leave the scaling of queries to the engine's rules, or give it back to the model's code.

    Only layers with a rule of `rules_of`, which is to be called first.
    """
    for one in module.modules():
        if hasattr(one, _FLOOR) and hasattr(one, _TUNING):
            if taken and getattr(one, _TUNING) and not getattr(one, "use_rope", True):
                setattr(one, _TUNING, False)
                setattr(one, _TAKEN, True)
            elif not taken and getattr(one, _TAKEN, False):
                setattr(one, _TUNING, True)
                setattr(one, _TAKEN, False)


_TUNING: Final = "attn_temperature_tuning"
_TAKEN: Final = "attn_temperature_taken_over"
_FLOOR: Final = "floor_scale"


def _tempered(module: nn.Module) -> Sequence[nn.Module]:
    return [
        one
        for one in module.modules()
        if hasattr(one, _FLOOR)
        and (getattr(one, _TUNING, False) or getattr(one, _TAKEN, False))
        and not getattr(one, "use_rope", True)
    ]
