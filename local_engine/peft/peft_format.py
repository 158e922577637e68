"""Load adapters saved by peft: a folder with adapter_config.json and adapter_model.safetensors.

https://huggingface.co/docs/peft/developer_guides/checkpoint: a weight's name is
`base_model.model.`, the layer's name, and `.lora_A.weight` or `.lora_B.weight`. Configurations
beyond plain LoRA change the meaning of the weights and are rejected.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from math import sqrt
from pathlib import Path

import msgspec
from msgspec import Raw, Struct
from safetensors import SafetensorError
from safetensors.torch import load_file  # pyright: ignore[reportUnknownVariableType]  # a generic path inside
from torch import Tensor

from strowger_gateway.local_engine.peft.lora_layers import Adapter, AdapterSites, Factors, Site
from strowger_gateway.schemas.errors import InvalidConfig

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_WEIGHT = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])\.weight")
_TAIL = re.compile(r"(?:.*\.)?(layers\.\d+\..+)")
MOVES_BASE = ("pissa", "olora", "corda", "loftq")
"""Initialisations that also change the base model, so the weights do not fit the original one."""


class AdapterConfig(Struct, frozen=True, kw_only=True):
    """The used fields of adapter_config.json; the scale is lora_alpha / r, or / sqrt(r).

    rank_pattern, alpha_pattern: by the end of a layer's name, or a regular expression for it.
    """

    peft_type: str = "LORA"
    r: int = 8
    lora_alpha: float = 8
    use_rslora: bool = False
    rank_pattern: dict[str, int] = {}
    alpha_pattern: dict[str, float] = {}
    init_lora_weights: bool | str | None = True
    bias: str = "none"
    modules_to_save: list[str] | None = None
    use_dora: bool = False
    fan_in_fan_out: bool = False
    lora_bias: bool = False
    use_qalora: bool = False
    layer_replication: Raw = Raw(b"null")
    trainable_token_indices: Raw = Raw(b"null")
    target_parameters: list[str] | None = None
    alora_invocation_tokens: list[int] | None = None


_decoder = msgspec.json.Decoder(AdapterConfig)


def load_adapter(name: str, path: str, sites: AdapterSites) -> Adapter:
    """Load an adapter. Raises InvalidConfig naming the adapter and what is not supported."""
    try:
        config = _config(Path(path))
        weights = _weights(Path(path))
        factors = _factors(weights, config, {site.name: site for site in sites.sites})
        return sites.adapter(factors, _digest(factors))
    except ValueError as exc:
        raise InvalidConfig((f"engine.loras: {name}: {exc}",)) from exc


def _config(folder: Path) -> AdapterConfig:
    """Raises ValueError."""
    try:
        config = _decoder.decode((folder / CONFIG).read_bytes())
    except OSError as exc:
        raise ValueError(f"{folder} is not an adapter saved by peft: {exc}") from exc
    except msgspec.DecodeError as exc:
        raise ValueError(f"{CONFIG} cannot be read: {exc}") from exc
    for unsupported, what in _refusals(config):
        if unsupported:
            raise ValueError(f"{CONFIG}: {what}; merge the adapter into its model and serve that")
    return config


def _refusals(config: AdapterConfig) -> tuple[tuple[bool, str], ...]:
    start = config.init_lora_weights
    empty = (b"null", b"[]", b"{}")
    return (
        (config.peft_type != "LORA", f"peft_type {config.peft_type} is not supported, only LORA"),
        (config.use_dora, "use_dora: DoRA is not supported"),
        (config.fan_in_fan_out, "fan_in_fan_out: transposed weights are not supported"),
        (config.bias != "none", f"bias {config.bias} is not supported, only none"),
        (config.lora_bias, "lora_bias: biases are not supported"),
        (config.use_qalora, "use_qalora: QALoRA is not supported"),
        (bool(config.modules_to_save), "modules_to_save: whole layers are not supported"),
        (bytes(config.layer_replication) not in empty, "layer_replication is not supported"),
        (
            bytes(config.trainable_token_indices) not in empty,
            "trainable_token_indices is not supported",
        ),
        (bool(config.target_parameters), "target_parameters: only linear layers are supported"),
        (
            bool(config.alora_invocation_tokens),
            "alora_invocation_tokens: activated LoRA is not supported",
        ),
        (
            isinstance(start, str) and start.lower().startswith(MOVES_BASE),
            f"init_lora_weights is {start}, which changes the base model",
        ),
    )


def _weights(folder: Path) -> dict[str, Tensor]:
    try:
        return load_file(str(folder / WEIGHTS))
    except (OSError, SafetensorError) as exc:
        raise ValueError(
            f"{folder / WEIGHTS} cannot be read (only safetensors is supported): {exc}"
        ) from exc


def _factors(
    weights: Mapping[str, Tensor], config: AdapterConfig, sites: Mapping[str, Site]
) -> dict[str, Factors]:
    """Raises ValueError."""
    halves: dict[str, dict[str, Tensor]] = {}
    tails = {found[1]: name for name in sites if (found := _TAIL.fullmatch(name))}
    for key, tensor in weights.items():
        found = _WEIGHT.fullmatch(key)
        if found is None:
            raise ValueError(f"{WEIGHTS}: {key} is not a plain LoRA weight of a linear layer")
        tail = _TAIL.fullmatch(found[1])
        name = found[1] if found[1] in sites else tails.get(tail[1] if tail else "")
        if name is None:
            raise ValueError(
                f"{WEIGHTS}: {key}: the model has no linear layer {found[1]} that takes adapters"
            )
        halves.setdefault(name, {})[found[2]] = tensor
    if not halves:
        raise ValueError(f"{WEIGHTS} has no weights")
    return {name: _pair(sites[name], half, config) for name, half in halves.items()}


def _pair(site: Site, halves: Mapping[str, Tensor], config: AdapterConfig) -> Factors:
    if len(halves) != 2:
        raise ValueError(f"{WEIGHTS}: {site.name} lacks one of lora_A and lora_B")
    down, up = halves["A"], halves["B"]
    rank = int(_patterned(config.rank_pattern, site.name, config.r))
    if rank < 1:
        raise ValueError(f"{CONFIG}: r is {rank} for {site.name}; it must be 1 or more")
    if tuple(down.shape) != (rank, site.inputs) or tuple(up.shape) != (site.outputs, rank):
        raise ValueError(
            f"{WEIGHTS}: {site.name}: shapes {list(down.shape)} and {list(up.shape)} should be "
            f"[{rank}, {site.inputs}] and [{site.outputs}, {rank}]"
        )
    if not (down.is_floating_point() and up.is_floating_point()):
        raise ValueError(f"{WEIGHTS}: {site.name}: {down.dtype} and {up.dtype} must be floats")
    alpha = _patterned(config.alpha_pattern, site.name, config.lora_alpha)
    scale = alpha / (sqrt(rank) if config.use_rslora else rank)
    return Factors(down=down, up=up.float() * scale)


def _patterned(patterns: Mapping[str, float], name: str, silent: float) -> float:
    """Return the first pattern that matches the whole name or its end after a dot, as peft does."""
    for pattern, value in patterns.items():
        try:
            if re.match(rf"(?:.*\.)?(?:{pattern})$", name):
                return value
        except re.error as exc:
            raise ValueError(f"{CONFIG}: the pattern {pattern!r} cannot be read: {exc}") from exc
    return silent


def _digest(factors: Mapping[str, Factors]) -> bytes:
    digest = blake2b(digest_size=16)
    for name in sorted(factors):
        digest.update(name.encode())
        for tensor in (factors[name].down, factors[name].up):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.float().contiguous().numpy().tobytes())
    return digest.digest()
