"""What the files of a checkpoint show before it is loaded: `strowger check` and every start ask.

No torch here: a folder that cannot be served is refused within milliseconds.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from strowger_gateway.local_engine.loading.families import refuse_family
from strowger_gateway.local_engine.loading.quantized import refuse_codes, refuse_quantized
from strowger_gateway.local_engine.loading.stored_weights import layers_of, refuse_absent_layers
from strowger_gateway.local_engine.loading.task_fit import Task, refuse_other_task
from strowger_gateway.local_engine.loading.weight_files import read_json, read_weights
from strowger_gateway.schemas.errors import InvalidConfig

CONFIG = "config.json"

DEFAULT_CONTEXT = 2048
"""Tokens of context of a model whose config does not say how many positions it has."""

TOKENIZERS = (
    *("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
    *("vocab.txt", "vocab.json", "tekken.json", "qwen.tiktoken", "tiktoken.model"),
)
"""Files of which every tokenizer has one."""

LARGEST = {
    "tokenizer.json": 256 << 20,
    "tokenizer_config.json": 64 << 20,
    "chat_template.jinja": 1 << 20,
    "chat_template.json": 1 << 20,
}
"""Bytes; the largest published ones have 35 MB, 2 MB and 30 kB."""


LENGTH_BOUND_ROPE = frozenset({"dynamic", "longrope"})
"""Rotary embeddings that change for the whole batch once any sequence exceeds the original
context. Sequences would no longer be independent, so they are limited to it."""


ORIGINAL = "original_max_position_embeddings"

YARN = "yarn"
"""Rotary embeddings that stretch the original context by a factor, for all lengths alike.
https://huggingface.co/Qwen/Qwen2.5-7B-Instruct#processing-long-texts"""


class _Module(Struct, frozen=True, kw_only=True):
    path: str = ""


def check_files(path: str, task: Task) -> None:
    """Check a folder for everything that its files show. Raises InvalidConfig."""
    check_weights(path, task)
    check_tokenizer(path, task)


def check_weights(path: str, task: Task) -> None:
    """Check config.json and the headers of the weights. Raises InvalidConfig with the remedy."""
    folder = Path(path)
    config = check_config(folder, task)
    weights = transformer_folder(folder, task)
    tensors = read_weights(weights)
    refuse_codes(weights, tensors)
    if config.get("is_encoder_decoder") is not True:
        refuse_absent_layers(path, tensors, layers_of(text_config(config)))


def check_config(folder: Path, task: Task) -> dict[str, object]:
    """Check what is declared, and return the content of config.json. Raises InvalidConfig."""
    inner = transformer_folder(folder, task)
    config = read_json(inner, CONFIG)
    if config is None:
        problem = f"the folder has no {CONFIG}"
        if (folder / "adapter_config.json").exists():
            problem = "the folder is an adapter (LoRA) and not a model; list it in engine.loras"
        elif any(folder.glob("*.gguf")):
            problem = (
                "the folder has GGUF weights, which this engine does not read; take the "
                "safetensors weights, or serve it with llama.cpp and add that as a provider"
            )
        raise InvalidConfig((f"the model at {folder} cannot be loaded: {problem}",))
    refuse_quantized(inner, config)
    refuse_other_task(folder, config, task)
    if task == "generate":
        refuse_family(str(folder), config, text_config(config))
    return config


def check_tokenizer(path: str, task: Task) -> None:
    """path: a folder or a hub name, of which nothing is known here.

    Raises InvalidConfig for a folder without a tokenizer, and for files of absurd sizes."""
    folder = transformer_folder(Path(path), task)
    if not (folder / CONFIG).exists():
        return  # at the hub, or refused for that
    if not any((folder / name).exists() for name in TOKENIZERS):
        raise InvalidConfig(
            (
                f"the model at {path} cannot be loaded: it has no tokenizer (tokenizer.json); "
                "copy the tokenizer's files from where the weights are from",
            )
        )
    for name, most in LARGEST.items():
        file = folder / name
        if file.exists() and (size := file.stat().st_size) > most:
            raise InvalidConfig(
                (
                    f"the model at {path} cannot be loaded: {name} has {size:,} bytes; a usable "
                    f"one has at most {most:,}",
                )
            )


def transformer_folder(folder: Path, task: Task) -> Path:
    """Return the folder of the weights: models of sentence-transformers may have an inner one."""
    modules = folder / "modules.json"
    if task != "embed" or not modules.is_file():
        return folder
    try:
        found = msgspec.json.decode(modules.read_bytes(), type=tuple[_Module, ...])
    except (OSError, msgspec.DecodeError, RecursionError):
        return folder  # `read_config` reports what is wrong with it
    inner = folder / found[0].path if found else folder
    return inner if inner.is_dir() else folder


def text_config(config: dict[str, object]) -> dict[str, object]:
    """Return the configuration of the language model inside one with several parts."""
    inner = config.get("text_config")
    return cast(dict[str, object], inner) if isinstance(inner, dict) else config


def cut_of(path: str) -> str:
    """Say to what the context of a folder's model is cut; "" if it is not, or not known yet."""
    folder = Path(path)
    config = read_json(folder, CONFIG) if folder.is_dir() else None
    return "" if config is None else cut_context(text_config(config))[1]


def cut_context(config: Mapping[str, object]) -> tuple[int, str]:
    """Return the longest context, tokens, and why it is shorter than the model's; "" if it is not.

    config: of the language model, as config.json or transformers has it.
    """
    stated = config.get("max_position_embeddings")
    context = stated if isinstance(stated, int) and stated else DEFAULT_CONTEXT
    found = config.get("rope_parameters") or config.get("rope_scaling")
    rope = cast(dict[str, object], found) if isinstance(found, dict) else {}
    kind = rope.get("rope_type") or rope.get("type")
    original = rope.get(ORIGINAL) or config.get(ORIGINAL)
    if kind == YARN and isinstance(original, int):
        factor = rope.get("factor")
        # Operators add the section by hand, and leave the positions of the shorter model.
        stretched = int(original * factor) if isinstance(factor, int | float) else 0
        return max(context, stretched), ""
    if kind not in LENGTH_BOUND_ROPE or not isinstance(original, int) or original >= context:
        return context, ""
    return original, (
        f"its context is {original} tokens and not {context}: beyond {original} its rotary "
        f"embedding ({kind}) would change the other answers of a batch; for longer contexts "
        "serve it with another engine"
    )
