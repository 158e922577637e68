"""Tiny models and tokenizers, created on the fly: random weights, a few hundred words."""

# torch, tokenizers and transformers annotate these members in part only:
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast

import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

CORPUS = (
    "The quick brown fox jumps over the lazy dog. A gateway answers one number to call.",
    "Ein Satz mit Umlauten: äöüß. Un café, s'il vous plaît. 你好，世界 🎉🎉 naïve",
)
SPECIALS = ["<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role not in ('system', 'user', 'assistant', 'tool') %}"
    "{{ raise_exception('no such role: ' + m.role) }}{% endif %}"
    "<|user|>{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCABULARY = 400

SHAPE: Mapping[str, object] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.5,
}
FAMILIES: dict[str, dict[str, object]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "mistral": {"sliding_window": 7},
    "gemma3_text": {
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
        "query_pre_attn_scalar": 8,
    },
    "gemma2": {"sliding_window": 6, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 3.0},
    "gpt_oss": {"sliding_window": 6, "num_local_experts": 2, "num_experts_per_tok": 1},
    "granite": {
        "embedding_multiplier": 6.0,
        "residual_multiplier": 0.4,
        "attention_multiplier": 0.3,
        "logits_scaling": 4.0,
    },
    "olmo2": {},
    "phi3": {},
    "glm4": {},
    "smollm3": {},
    "starcoder2": {},
    "cohere2": {
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "gpt_neox": {},
    "llama4_text": {
        "attention_chunk_size": 6,
        "layer_types": ["chunked_attention", "full_attention"],
        "no_rope_layers": [1, 0],
        "floor_scale": 4,
        "intermediate_size_mlp": 64,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
    },
    "gemma4_text": {
        "sliding_window": 5,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "global_head_dim": 16,
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": VOCABULARY,
    },
    "gemma3n_text": {
        "sliding_window": 5,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": VOCABULARY,
        "intermediate_size": [64] * 4,
        "activation_sparsity_pattern": [0.0] * 4,
    },
    "olmo3": {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]},
    "deepseek_v3": {
        "num_key_value_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
        "head_dim": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
    },
}

Kind = Literal["byte_level", "byte_fallback"]


def tokenizer(kind: Kind = "byte_level") -> Tokenizer:
    """Trained on CORPUS; both kinds can spell any text."""
    if kind == "byte_level":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        made.train_from_iterator(
            CORPUS,
            trainers.BpeTrainer(
                vocab_size=VOCABULARY,
                special_tokens=SPECIALS,
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            ),
        )
        return made
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<pad>"))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = ["▁", *"abcdefghijklmnopqrstuvwxyz.,äé世", "▁t", "th", "▁th", "the", "▁the"]
    vocabulary = {token: id for id, token in enumerate([*SPECIALS, *bytes_, *letters])}
    merges = [("▁", "t"), ("t", "h"), ("▁t", "h"), ("th", "e"), ("▁th", "e")]
    made.model = models.BPE(
        vocab=vocabulary, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<pad>"
    )
    made.add_special_tokens(SPECIALS)
    return made


def save_tokenizer(
    folder: Path,
    kind: Kind = "byte_level",
    template: str | None = TEMPLATE,
    markers: Mapping[str, bool] = MappingProxyType({}),
) -> None:
    """markers: additional tokens; True: special, so that a decoder leaves them out."""
    backend = tokenizer(kind)
    backend.add_tokens([AddedToken(m, normalized=False) for m, s in markers.items() if not s])
    backend.add_special_tokens([AddedToken(m) for m, special in markers.items() if special])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=SPECIALS[3:],
    )
    fast.chat_template = template
    fast.save_pretrained(folder)


def save_model(
    folder: Path, family: str = "llama", *, rounded: bool = False, **changes: object
) -> Path:
    """Write a folder that `load` can read; the same arguments give the same weights.

    rounded: to bfloat16 values, as in most checkpoints.
    """
    torch.manual_seed(7)
    shape = {**SHAPE, **FAMILIES.get(family, {}), **changes}
    config = AutoConfig.for_model(family, **shape)
    model = cast(PreTrainedModel, AutoModelForCausalLM.from_config(config, dtype=torch.float32))
    if rounded:
        model.bfloat16().float()
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder
