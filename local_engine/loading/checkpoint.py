"""Load a model from a folder or the hub: safetensors only, without running the model's code.

Models that cannot be served are rejected here, at startup, with the reason and the remedy.
"""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import Protocol, cast

import torch
from msgspec import Struct
from torch import Tensor, nn
from transformers.configuration_utils import PreTrainedConfig
from transformers.generation.configuration_utils import GenerationConfig
from transformers.modeling_utils import AttentionInterface, PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.local_engine.loading.checkpoint_files import (
    ORIGINAL,
    YARN,
    cut_context,
    text_config,
)
from strowger_gateway.local_engine.loading.families import ELSEWHERE, RECURRENT, refused_family
from strowger_gateway.local_engine.loading.hub_files import check_declared, check_stored
from strowger_gateway.local_engine.loading.load_faults import one_line
from strowger_gateway.local_engine.loading.stored_weights import (
    Extras,
    LoadingReport,
    layers_of,
    predictors_of,
    refuse_incomplete,
)
from strowger_gateway.local_engine.ops.attention import NAME, Plan, attend
from strowger_gateway.local_engine.ops.linear import optimise
from strowger_gateway.local_engine.ops.self_test import Shape
from strowger_gateway.local_engine.peft.lora_layers import AdapterSites, find_sites
from strowger_gateway.schemas.errors import InvalidConfig

AttentionInterface.register(NAME, attend)

NO_TEXT = "transformers has no class for it that only generates text"
FIXED = (
    "its attention cannot be replaced by this engine's (transformers' _supports_attention_backend)"
)


class CausalLM(Protocol):
    """The part of a transformers model that is called for each step."""

    def __call__(
        self,
        *,
        input_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        position_ids: Tensor,
        use_cache: bool,
        logits_to_keep: int | Tensor,
        plan: Plan,
    ) -> "Output": ...


class Output(Protocol):
    logits: Tensor


class Loaded(Struct, frozen=True, kw_only=True, eq=False):
    """A model on its device, in evaluation mode.

    config:    of the text model.
    context:   the most tokens that it supports. cut: why these are fewer than the model's, or "".
    vocab:     columns of its logits.
    layers:    number of layers that must attend through the engine.
    shapes:    of the layers, each different one once.
    generation: the checkpoint's defaults.
    embed:     its token embeddings, the input of the first layer.
    hidden:    their width; 0 if its layers also use the token ids, so that embeddings cannot be
               replaced.
    sites:     layers that take adapters, if loaded for them.
    weights_bytes: of all weights, in the dtype in which they are stored.
    """

    module: PreTrainedModel
    config: PreTrainedConfig
    forward: CausalLM
    context: int
    cut: str = ""
    vocab: int
    layers: int
    shapes: tuple[Shape, ...]
    generation: GenerationConfig
    embed: nn.Module
    hidden: int
    sites: AdapterSites | None = None
    weights_bytes: int = 0


def load(path: str, *, device: str, dtype: torch.dtype, adapters: bool = False) -> Loaded:
    """Load a model. adapters: its layers take LoRA adapters.

    Raises InvalidConfig naming the model and why it cannot be served.
    """
    check_declared(path, "generate")
    try:
        config = cast(PreTrainedConfig, AutoConfig.from_pretrained(path, trust_remote_code=False))
        kind = _model_class(path, config)
        whole = config
        if kind.config_class is config.sub_configs.get("text_config"):
            config = config.get_text_config(decoder=True)
        check_stored(path, "generate")
        module, report = cast(
            tuple[PreTrainedModel, LoadingReport],
            kind.from_pretrained(
                path,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                attn_implementation=NAME,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused by name below
            ),
        )
    except (OSError, ValueError, ImportError) as exc:
        problem = f"the model at {path} cannot be loaded: {one_line(exc)}; {ELSEWHERE}"
        raise InvalidConfig((problem,)) from exc
    settings = cast(dict[str, object], config.get_text_config(decoder=True).to_dict())
    extras = Extras(
        layers=layers_of(settings),
        predictors=predictors_of(settings),
        senses=config is not whole,
    )
    refuse_incomplete(path, report, extras, kind=kind.__name__)
    module.eval().requires_grad_(requires_grad=False)
    module.to(torch.device(device))  # pyright: ignore[reportArgumentType]  # it loses `self`
    sites = find_sites(module) if adapters else None
    weights = sum(one.numel() * one.element_size() for one in module.parameters())
    optimise(module)
    if sites is not None:
        sites.wrap(module)
    text = config.get_text_config(decoder=True)
    context, cut = cut_context(_positions(text, path))
    return Loaded(
        module=module,
        config=text,
        forward=cast(CausalLM, module),
        context=context,
        cut=cut,
        vocab=int(text.vocab_size),
        layers=int(text.num_hidden_layers),
        shapes=_shapes(text, module),
        generation=module.generation_config or GenerationConfig(),
        embed=module.get_input_embeddings(),
        hidden=_table_width(module, text),
        sites=sites,
        weights_bytes=weights,
    )


def end_tokens(loaded: Loaded, tokenizer_end: int | None) -> frozenset[int]:
    """Return every token with which an answer ends: the checkpoint's and the tokenizer's.

    Fine-tuned models often end their turns with the tokenizer's end token, and keep the
    generation_config.json of their base model, which names another one:
    https://github.com/Blaizzy/mlx-vlm/pull/2112
    """
    found = cast(int | list[int] | None, loaded.generation.eos_token_id)
    if found is None:
        found = cast(int | list[int] | None, getattr(loaded.config, "eos_token_id", None))
    ends = {found} if isinstance(found, int) else set(found or ())
    return frozenset(ends if tokenizer_end is None else ends | {tokenizer_end})


def _model_class(path: str, config: PreTrainedConfig) -> type[PreTrainedModel]:
    mapping = cast(
        dict[type[PreTrainedConfig], type[PreTrainedModel]],
        AutoModelForCausalLM._model_mapping,  # pyright: ignore[reportPrivateUsage]  # the only way to ask before loading
    )
    if type(config) not in mapping:
        raise refused_family(path, config.model_type, NO_TEXT)
    kind = mapping[type(config)]
    if getattr(kind, "_is_stateful", False):
        raise refused_family(path, config.model_type, RECURRENT)
    if not getattr(kind, "_supports_attention_backend", False):
        raise refused_family(path, config.model_type, FIXED)
    return kind


def _shapes(config: PreTrainedConfig, module: nn.Module) -> tuple[Shape, ...]:
    """Layers of one model may have heads of their own: Gemma 4 has wider ones every few layers."""
    layers = config.per_layer_config
    sinks = any(name.endswith(".sinks") for name, _ in module.named_parameters())
    shapes = [_shape(layers[place], sinks=sinks) for place in range(len(layers))]
    return tuple(dict.fromkeys(shapes))


def _shape(config: PreTrainedConfig, *, sinks: bool) -> Shape:
    heads = int(getattr(config, "num_attention_heads", 0) or 1)
    hidden = int(getattr(config, "hidden_size", 0) or heads)
    return Shape(
        heads=heads,
        kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        width=int(getattr(config, "head_dim", None) or hidden // heads),
        hidden=hidden,
        window=int(getattr(config, "sliding_window", None) or 0),
        sinks=sinks,
    )


def _table_width(module: PreTrainedModel, config: PreTrainedConfig) -> int:
    if getattr(config, "hidden_size_per_layer_input", 0):
        return 0
    return int(cast(Tensor, module.get_input_embeddings().weight).shape[-1])


def longest_context(config: PreTrainedConfig, path: str, subfolder: str) -> int:
    """Return the longest input of a model, tokens. path, subfolder: of its config.json."""
    return cut_context(_positions(config, path, subfolder))[0]


def _positions(config: PreTrainedConfig, path: str, subfolder: str = "") -> dict[str, object]:
    """Return what `cut_context` reads; transformers invents an original context of YaRN."""
    names = ("max_position_embeddings", "rope_parameters", ORIGINAL)
    found = {name: cast(object, getattr(config, name, None)) for name in names}
    rope = found["rope_parameters"]
    if isinstance(rope, dict) and rope.get("rope_type") == YARN:
        read = cast("Callable[..., tuple[dict[str, object], object]]", config.get_config_dict)
        stored, _ = read(path, subfolder=subfolder)
        stated = text_config(stored)
        section = stated.get("rope_parameters") or stated.get("rope_scaling")
        if not isinstance(section, dict) or ORIGINAL not in section:
            found["rope_parameters"] = {**cast(dict[str, object], rope), ORIGINAL: None}
    return found
