"""Random models of every causal class of transformers: a few layers, narrow, with short windows.

Each configuration begins with the class's own defaults; numbers of known names become small, lists
with an entry per layer keep one of each kind. OVERRIDES has what that does not reach.
"""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import torch
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    AutoModelForCausalLM,
)

from tests.local_engine.tiny import VOCABULARY, save_tokenizer

Fields = dict[str, object]

LAYERS: Final = 4
WINDOW: Final = 9
"""Tokens of a window or chunk: shorter than most prompts, longer than a step of 7."""

SPREAD: Final = 0.3
"""Standard deviation of the weights: large enough that attention chooses among tokens."""

SMALL: Final[Mapping[object, Sequence[str]]] = {
    32: (
        *("hidden_size", "n_embd", "d_model", "emb_dim", "embedding_dim", "word_embed_proj_dim"),
        *("embedding_size", "input_embedding_size", "output_embedding_size", "lru_width"),
    ),
    64: (
        *("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner", "dff"),
        *("ffn_hidden_size", "dim_ff", "feed_forward_size", "d_inner", "intermediate_size_mlp"),
        *("dense_intermediate_size", "mamba_d_ssm"),
    ),
    16: (
        *("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"),
        *("shared_experts_intermediate_size", "moe_shared_expert_intermediate_size"),
        *("shared_intermediate_size", "q_lora_rank", "kv_lora_rank", "qk_head_dim", "o_lora_rank"),
        *("global_head_dim", "laurel_rank", "router_hidden_size", "hc_lowrank"),
    ),
    8: (
        *("head_dim", "attention_head_size", "dim_head", "d_head", "kv_channels", "v_head_dim"),
        *("attention_head_dim", "swa_head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "d_rel"),
        *("swa_v_head_dim", "index_head_dim", "hidden_size_per_layer_input", "linear_key_head_dim"),
        *("linear_value_head_dim", "linear_head_dim", "mamba_d_state", "state_size", "chunk_size"),
        *("mamba_chunk_size", "mamba_d_head", "time_step_rank", "mamba_dt_rank", "adapter_rank"),
        *("query_pre_attn_scalar", "ssm_state_size", "mamba_head_dim", "mamba_headdim"),
    ),
    LAYERS: (
        *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "num_blocks"),
        *("decoder_layers", "num_decoder_layers", "num_encoder_layers", "num_layers_per_stack"),
        *("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
        *("encoder_attention_heads", "decoder_attention_heads", "swa_num_attention_heads"),
        *("num_encoder_attention_heads", "num_decoder_attention_heads", "num_query_groups"),
        *("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
        *("rotary_dim", "linear_num_key_heads", "linear_num_value_heads", "linear_num_heads"),
        *("index_n_heads", "mamba_n_heads", "mamba_num_heads", "zero_expert_num"),
    ),
    2: (
        *("num_key_value_heads", "num_kv_heads", "swa_num_key_value_heads", "num_experts_per_tok"),
        *("moe_topk", "moe_k", "n_group", "num_kv_shared_layers", "max_window_layers"),
        *("num_global_key_value_heads", "eos_token_id"),
    ),
    1: ("topk_group", "bos_token_id", "first_k_dense_replace", "mamba_n_groups"),
    0: ("pad_token_id", "sep_token_id", "cls_token_id"),
    WINDOW: (
        *("sliding_window", "attention_chunk_size", "sliding_window_size", "window_size"),
        *("attention_window_size", "keep_window_size", "local_attention_window_len", "floor_scale"),
        *("log_scaling_n_floor",),
    ),
    2 * WINDOW: ("local_attention",),
    VOCABULARY: ("vocab_size", "vocab_size_per_layer_input", "unpadded_vocab_size"),
    256: (
        *("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "context_length"),
        *("model_max_length", "max_target_positions", "rel_extent"),
    ),
}
"""Values, and the fields that get them where a configuration has them."""

FLAGS: Final = ("use_sliding_window", "is_decoder")
"""Fields that are set: windows, and encoders that are used as decoders."""

LAYER_COUNTS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")

_ASSISTANT: Final[Fields] = {
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
}
_ROPE: Final[Fields] = {"rope_type": "default", "rope_theta": 1e4}

OVERRIDES: Final[Mapping[str, Fields]] = {
    "dbrx": {
        "attn_config": {"rope_theta": 1e4, "kv_n_heads": 2, "clip_qkv": 8.0},
        "ffn_config": {
            "hidden_size": 32,
            "ffn_hidden_size": 64,
            "moe_num_experts": 4,
            "moe_top_k": 2,
        },
    },
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "rope_parameters": {"sliding_attention": _ROPE, "full_attention": _ROPE},
    },
    "dots1": {"n_shared_experts": 1},
    "gemma4_assistant": {"text_config": {"model_type": "gemma4_text", **_ASSISTANT}},
    "gemma4_unified_assistant": {
        "text_config": {"model_type": "gemma4_unified_text", **_ASSISTANT}
    },
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "llama4_vision_model": {
        "image_size": 28,
        "projector_input_dim": 32,
        "projector_output_dim": 32,
        "vision_output_dim": 32,
    },
    "moshi": {"audio_vocab_size": VOCABULARY},
    # A window that only its masks have, as long as the context, as published models have it.
    "phimoe": {"sliding_window": 256},
}
"""By family, or by the family of a part of a configuration with several."""


def families() -> Sequence[str]:
    """Return the model types that have a class for causal language models."""
    return tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def class_of(family: str) -> str:
    named = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[family]
    return named if isinstance(named, str) else named[0]


def small_config(family: str) -> PreTrainedConfig:
    """Raises whatever the class raises that takes no such values."""
    return _small(CONFIG_MAPPING[family])


def declare(family: str, folder: Path) -> None:
    """Write config.json and tokenizer alone: of a small model if its class takes one."""
    try:
        config = small_config(family)
    except Exception:  # noqa: BLE001  each class has its own ways to refuse values
        config = CONFIG_MAPPING[family]()
    config.architectures = [class_of(family)]
    config.save_pretrained(folder)
    save_tokenizer(folder)


def save_random(family: str, folder: Path) -> None:
    """Write a whole model with random weights, float32, the same ones each time."""
    torch.manual_seed(7)
    config = small_config(family)
    model = cast(PreTrainedModel, AutoModelForCausalLM.from_config(config, dtype=torch.float32))
    with torch.no_grad():
        for name, one in model.named_parameters():
            if one.dim() > 1:
                one.normal_(0.0, SPREAD)
            elif "norm" in name or "bias" in name:
                one.add_(torch.randn_like(one) * 0.1)
    model.save_pretrained(folder)
    if model.config.model_type != family:  # a class of the language model inside a larger one
        config.architectures = [class_of(family)]
        config.save_pretrained(folder)


def _small(kind: type[PreTrainedConfig], given: Fields | None = None) -> PreTrainedConfig:
    """given: values that override the small ones, in addition to OVERRIDES."""
    parts = cast(dict[str, type[object]], kind.sub_configs)
    overrides = {**OVERRIDES.get(kind.model_type, {}), **(given or {})}
    values: Fields = {}
    for name, declared in parts.items():
        inner = dict(cast(Fields, overrides.pop(name, {})))
        part = declared
        if not issubclass(part, PreTrainedConfig):  # AutoConfig: any
            named = cast("str | None", inner.pop("model_type", None))
            part = CONFIG_MAPPING[named] if named else type(getattr(kind(), name))
        if issubclass(part, PreTrainedConfig):
            values[name] = _small(part, inner).to_dict()
    if "text_config" not in parts:
        values |= _shrunk(kind)
    return _made(kind, values | overrides)


def _made(kind: type[PreTrainedConfig], values: Fields) -> PreTrainedConfig:
    return cast("Callable[..., PreTrainedConfig]", kind)(**values)


def _shrunk(kind: type[PreTrainedConfig]) -> Fields:
    """Return the small values of the fields that the class has, and its lists for LAYERS layers."""
    given: Fields = OVERRIDES.get(kind.model_type, {})
    try:
        default = cast(Fields, kind().to_dict())
    except Exception:  # noqa: BLE001  each class has its own ways to refuse its defaults
        default = cast(Fields, _made(kind, given).to_dict())
    names = {name: value for value, fields in SMALL.items() for name in fields}
    values = {name: names[name] for name in default if name in names}
    values |= {name: True for name in FLAGS if name in default}
    if "kv_lora_rank" in default or "num_attention_heads" not in default:
        values.pop("num_key_value_heads", None)
    if "kv_lora_rank" in default and "num_key_value_heads" in default:
        values["num_key_value_heads"] = LAYERS
    counts = [default[name] for name in LAYER_COUNTS if default.get(name)]
    lists = {
        name: list(value)
        for name, value in default.items()
        if isinstance(value, list | tuple) and len(value) in counts
    }
    places = _kept_layers(lists)
    return values | {
        name: [value[place] for place in places] for name, value in lists.items() if places
    }


def _kept_layers(lists: Mapping[str, Sequence[object]]) -> Sequence[int]:
    """Return the places of LAYERS layers, in which each kind of layer of `lists` comes first."""
    if not lists:
        return ()
    rows = list(zip(*(map(str, one) for one in lists.values()), strict=False))
    kinds = list(dict.fromkeys(rows))
    first = [rows.index(kind) for kind in kinds][:LAYERS]
    while len(first) < LAYERS:
        first.append(first[len(first) % len(kinds)])
    return first
