"""Recognise quantized weights, by every file that declares them, and refuse them by name.

Read before anything else: transformers ignores a declaration that it does not know and would take
the codes for weights. No torch here.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import cast

from strowger_gateway.local_engine.loading.weight_files import StoredTensor, listed, read_json
from strowger_gateway.schemas.errors import InvalidConfig

JSON = Mapping[str, object]

KEYS = ("quantization_config", "compression_config", "quantization", "quantize")
"""Of config.json: transformers and most tools; compressed-tensors before 0.5; MLX; MindIE."""

DEPTH = 4
"""How deep config.json is searched: models with several parts have a configuration for each."""

MSMODELSLIM = ("quant_model_description*.json", "quant_model_weight*.safetensors")
"""The description has the type of every weight, by name; FLOAT is not quantized."""

CODES = frozenset({"I8", "U8", "I4", "U4", "F4", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ"})
"""Number formats that hold no weights, unless scales belong to them."""

BUFFERS = re.compile(r"(^|\.)(attn|attention|self_attn)\.(bias|masked_bias)$|mask$")
"""Masks, which older GPT checkpoints contain in 8 bit."""

REMEDY = (
    "this engine computes weights in float32, bfloat16 and float16: take or publish those, or "
    "serve the quantized ones with another engine, such as vLLM, and add that as a provider"
)


def refuse_quantized(folder: Path, config: JSON) -> None:
    """config: the content of config.json. Raises InvalidConfig naming the method and the file."""
    if found := _declared(folder, config):
        raise _refused(folder, found)


def refuse_codes(folder: Path, tensors: Mapping[str, StoredTensor]) -> None:
    """Refuse weights in formats of quantization although no file declares them."""
    codes = [
        name
        for name, tensor in tensors.items()
        if tensor.dtype in CODES and not BUFFERS.search(name)
    ]
    if codes:
        kinds = ", ".join(sorted({tensors[name].dtype for name in codes}))
        raise _refused(folder, f"{kinds} weights: {listed(codes)}")


def _declared(folder: Path, config: JSON) -> str:
    """Return the method and where it is declared; "" if nothing is."""
    names = sorted(entry.name for entry in folder.iterdir())
    for name in (name for name in names if fnmatch(name, MSMODELSLIM[0])):
        read = read_json(folder, name) or {}
        kinds = {kind for kind in read.values() if isinstance(kind, str)} - {"FLOAT"}
        if kinds:
            kind = str(read.get("model_quant_type") or ", ".join(sorted(kinds)[:2]))
            return f"msmodelslim {kind}; {name}"
    for where, declared in _in_config(config, "", DEPTH):
        if said := _method(declared):
            return f"{said}; {where} of config.json"
    if weights := [name for name in names if fnmatch(name, MSMODELSLIM[1])]:
        return f"msmodelslim; {weights[0]}"
    if said := _method(read_json(folder, "quantize_config.json"), "GPTQ"):
        return f"{said}; quantize_config.json"
    if said := _method(read_json(folder, "quant_config.json"), "AWQ"):
        return f"{said}; quant_config.json"
    modelopt = (read_json(folder, "hf_quant_config.json") or {}).get("quantization")
    if isinstance(modelopt, dict) and (algorithm := cast(JSON, modelopt).get("quant_algo")):
        return f"ModelOpt {algorithm}; hf_quant_config.json"
    return ""


def _in_config(value: JSON, path: str, depth: int) -> Iterator[tuple[str, object]]:
    for key, inner in value.items():
        if key in KEYS:
            yield path + key, inner
        elif isinstance(inner, dict) and depth > 1:
            yield from _in_config(cast(JSON, inner), f"{path}{key}.", depth - 1)


def _method(declared: object, assumed: str = "") -> str:
    """Return a method and its bits; "" for a declaration of nothing. assumed: if it has no name."""
    if isinstance(declared, str):
        return declared
    if not isinstance(declared, dict) or not declared:
        return ""
    found = cast(JSON, declared)
    names = [str(found[key]) for key in ("quant_method", "quant_algo", "mode") if found.get(key)]
    name = names[0] if names else assumed
    if not name and (found.get("load_in_4bit") or found.get("load_in_8bit")):
        name = "bitsandbytes"
    bits = found.get("bits") or found.get("w_bit")
    if isinstance(bits, int):
        name = f"{name or 'unnamed method'} {bits} bit"
    if not name and (layers := found.get("format")):
        name = str(layers)
    return name or "a method without a name"


def _refused(folder: Path, found: str) -> InvalidConfig:
    return InvalidConfig(
        (f"the model at {folder} cannot be loaded: its weights are quantized ({found}); {REMEDY}",)
    )
