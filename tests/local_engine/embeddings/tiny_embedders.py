"""Tiny embedding models of many families, whose weights follow a formula: the same everywhere."""

# torch, tokenizers, safetensors and transformers annotate these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import msgspec
import torch
from msgspec import Struct
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModel
from transformers.models.gemma3.modeling_gemma3 import Gemma3TextModel
from transformers.models.t5.modeling_t5 import T5EncoderModel
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

WORDS = (
    "<pad>", "<s>", "</s>", "<unk>", "the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog",
    "The", "one", "number", "to", "call", "query", "passage", ":", ".", "a", "long", "text",
    "about", "nothing", "at", "all",
)  # fmt: skip
TEXTS = (
    "the quick brown fox",
    "The lazy dog jumps over a long text about nothing at all . the one number to call . a dog",
    "call",
    "over the unheard-of word",
)
WIDTH, PLACES = 16, 40

ENCODER: Mapping[str, object] = {
    "vocab_size": len(WORDS),
    "hidden_size": WIDTH,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": PLACES,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DECODER: Mapping[str, object] = {**ENCODER, "num_key_value_heads": 1, "head_dim": 8}
SHAPES: dict[str, dict[str, object]] = {
    "bert": {},
    "roberta": {"pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
    "mpnet": {"pad_token_id": 1},
    "distilbert": {"dim": WIDTH, "hidden_dim": 24, "n_layers": 2, "n_heads": 2},
    "albert": {"embedding_size": 8},
    "modernbert": {
        "global_attn_every_n_layers": 2, "local_attention": 4, "cls_token_id": 1, "sep_token_id": 2,
    },
    "nomic_bert": {"head_dim": 8},
    "t5": {"d_model": WIDTH, "d_ff": 24, "d_kv": 8, "num_layers": 2, "num_heads": 2},
    "qwen3": {},
    "mistral": {"sliding_window": 6},
    "llama": {},
    "gemma3_text": {
        "use_bidirectional_attention": True, "query_pre_attn_scalar": 8, "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}  # fmt: skip
DECODERS = frozenset({"qwen3", "mistral", "llama", "gemma3_text"})
KINDS: dict[str, type[PreTrainedModel]] = {"t5": T5EncoderModel, "gemma3_text": Gemma3TextModel}
OLD, NEW = "sentence_transformers.models", "sentence_transformers.sentence_transformer.modules"


class Dense(Struct, frozen=True, kw_only=True):
    outputs: int = 12
    bias: bool = True
    activation: str = "torch.nn.modules.activation.Tanh"
    residual: bool = False


class Case(Struct, frozen=True, kw_only=True):
    """A model folder. modes: of pooling, by name; old: written as flags, the former format."""

    family: str
    modes: tuple[str, ...]
    old: bool = True
    dense: Dense | None = None
    normalise: bool = True
    include_prompt: bool = True
    lower_case: bool = False
    prompts: Mapping[str, str] = {}
    default: str | None = None
    truncate_dim: int | None = None
    longest: int | None = None
    places: int = PLACES
    more: Mapping[str, object] = {}


CASES: dict[str, Case] = {
    "bert-cls": Case(family="bert", modes=("cls",)),
    "bert-mean-dense": Case(family="bert", modes=("mean",), dense=Dense()),
    "bert-two-modes": Case(family="bert", modes=("cls", "mean"), normalise=False),
    "bert-prompts": Case(
        family="bert", modes=("mean",), include_prompt=False, default="query",
        prompts={"query": "query : ", "passage": "passage : "},
    ),
    "bert-lower": Case(family="bert", modes=("mean",), lower_case=True, old=False),
    "roberta-mean": Case(family="roberta", modes=("mean",)),
    "xlm-roberta-cls": Case(family="xlm-roberta", modes=("cls",), old=False),
    "mpnet-mean": Case(family="mpnet", modes=("mean",)),
    "distilbert-max": Case(family="distilbert", modes=("max",), normalise=False),
    "albert-sqrt": Case(family="albert", modes=("mean_sqrt_len_tokens",), normalise=False),
    "modernbert-mean": Case(family="modernbert", modes=("mean",), old=False),
    "nomic-mean": Case(family="nomic_bert", modes=("mean",)),
    "t5-dense": Case(
        family="t5", modes=("mean",),
        dense=Dense(bias=False, activation="torch.nn.modules.linear.Identity"),
    ),
    "qwen3-last": Case(
        family="qwen3", modes=("lasttoken",), prompts={"query": "query : ", "document": ""},
    ),
    "mistral-last": Case(family="mistral", modes=("lasttoken",), old=False),
    "llama-weighted": Case(family="llama", modes=("weightedmean",)),
    "gemma3-residual": Case(
        family="gemma3_text", modes=("mean",), truncate_dim=6,
        dense=Dense(outputs=WIDTH, residual=True),
    ),
}  # fmt: skip


def save_embedder(folder: Path, case: Case) -> Path:
    """Write a folder in sentence-transformers' layout."""
    plain = DECODER if case.family in DECODERS else ENCODER
    shape = {
        **plain, "max_position_embeddings": case.places, **SHAPES[case.family], **case.more
    }  # fmt: skip
    config = AutoConfig.for_model(case.family, **shape)
    kind = KINDS.get(case.family)
    module = kind(config) if kind else cast(PreTrainedModel, AutoModel.from_config(config))
    fill(module.state_dict())
    module.save_pretrained(folder)
    save_words(folder, decoder=case.family in DECODERS, longest=case.longest)
    write(folder / "sentence_bert_config.json", {
        "max_seq_length": case.longest, "do_lower_case": case.lower_case,
    })  # fmt: skip
    write(folder / "config_sentence_transformers.json", {
        "prompts": case.prompts, "default_prompt_name": case.default,
        "truncate_dim": case.truncate_dim,
    })  # fmt: skip
    write(folder / "modules.json", list(_modules(folder, case)))
    return folder


def save_words(folder: Path, *, decoder: bool, longest: int | None = None) -> None:
    """One token per word. The file requests truncation and padding, which must be ignored."""
    made = Tokenizer(
        models.WordLevel({word: id for id, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>" if decoder else "<s> $A </s>",
        special_tokens=[("<s>", 1), ("</s>", 2)],
    )
    made.enable_truncation(3)
    made.enable_padding(length=5)
    PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=longest or PLACES - 2,
    ).save_pretrained(folder)


def fill(weights: Mapping[str, Tensor]) -> None:
    """Fill weights with numbers that differ by position, with mean 0; mean 1 for norms."""
    with torch.no_grad():
        for k, (name, weight) in enumerate(sorted(weights.items())):
            if not weight.is_floating_point():
                continue
            i = torch.arange(weight.numel(), dtype=torch.float64)
            values = 0.4 * torch.sin(i * i * 0.0137 + i * 0.31 + k)
            if "norm" in name.lower() and name.endswith("weight"):
                values += 1
            weight.copy_(values.reshape(weight.shape))


def write(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.encode(content))


def _modules(folder: Path, case: Case) -> Iterator[dict[str, object]]:
    home = OLD if case.old else NEW
    kinds = [
        "Transformer",
        "Pooling",
        *["Dense"] * bool(case.dense),
        *["Normalize"] * case.normalise,
    ]
    for place, kind in enumerate(kinds):
        path = f"{place}_{kind}" if place else ""
        name = {"Transformer": "transformer", "Normalize": "normalize"}.get(kind, kind.lower())
        where = home if case.old else f"{home}.{name}" if kind == "Pooling" else OLD
        yield {"idx": place, "name": str(place), "path": path, "type": f"{where}.{kind}"}
        match kind:
            case "Pooling":
                write(folder / path / "config.json", _pooling(case))
            case "Dense":
                _dense(folder / path, case)
            case _:
                (folder / path).mkdir(exist_ok=True)


def _pooling(case: Case) -> dict[str, object]:
    if not case.old:
        modes = case.modes[0] if len(case.modes) == 1 else case.modes
        return {"embedding_dimension": WIDTH, "pooling_mode": modes}
    flags = {
        f"pooling_mode_{name}{'' if name == 'lasttoken' else '_tokens'}": name in case.modes
        for name in ("max", "mean", "weightedmean", "lasttoken")
    }
    return {
        "word_embedding_dimension": WIDTH,
        "pooling_mode_cls_token": "cls" in case.modes,
        "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens" in case.modes,
        **flags,
        "include_prompt": case.include_prompt,
    }


def _dense(folder: Path, case: Case) -> None:
    dense = case.dense
    assert dense is not None
    write(folder / "config.json", {
        "in_features": WIDTH, "out_features": dense.outputs, "bias": dense.bias,
        "activation_function": dense.activation, "use_residual": dense.residual,
    })  # fmt: skip
    weights = {"linear.weight": torch.empty(dense.outputs, WIDTH)}
    if dense.bias:
        weights["linear.bias"] = torch.empty(dense.outputs)
    fill(weights)
    save_file(weights, folder / "model.safetensors")
