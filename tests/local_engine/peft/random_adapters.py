"""Random adapters for tiny models: in peft's and TensorRT-LLM's formats, and merged."""

# torch and transformers annotate these members in part only:
# pyright: reportUnknownMemberType=false

import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]  # a generic path inside
from torch import nn
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.peft.lora_layers import Adapter, AdapterSites, Site
from strowger_gateway.schemas.requests import LoraRequest
from strowger_gateway.schemas.tensors import Tensor
from tests.local_engine.tiny import save_tokenizer

EVERY = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
TRT_ID = {"q_proj": 1, "k_proj": 2, "v_proj": 3, "o_proj": 4, "gate_proj": 5, "down_proj": 6}
TRT_ID["up_proj"] = 7

MARGIN = 1000
"""Columns for the other layers that are joined with a site."""

Pairs = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""A [r, in] and B [out, r], by the layer's name."""


def plain_model(folder: Path) -> PreTrainedModel:
    return cast(PreTrainedModel, AutoModelForCausalLM.from_pretrained(folder)).eval()


def linear_weights(folder: Path) -> dict[str, torch.Tensor]:
    modules = cast(Iterable[tuple[str, nn.Module]], plain_model(folder).named_modules())
    return {
        name: module.weight.detach() for name, module in modules if isinstance(module, nn.Linear)
    }


def random_pairs(
    folder: Path, seed: int, *, rank: int = 4, leaves: tuple[str, ...] = EVERY
) -> Pairs:
    """Return factors large enough to change a greedy answer."""
    source = torch.Generator().manual_seed(seed)
    pairs: Pairs = {}
    for name, weight in linear_weights(folder).items():
        if name.rpartition(".")[2] in leaves:
            down = torch.randn(rank, weight.shape[1], generator=source) * 0.3
            up = torch.randn(weight.shape[0], rank, generator=source) * 0.3
            pairs[name] = (down, up)
    return pairs


def save_adapter(path: Path, pairs: Pairs, **fields: object) -> Path:
    """Write a folder as peft does. fields: of adapter_config.json."""
    path.mkdir(exist_ok=True)
    rank = next(iter(pairs.values()))[0].shape[0]
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none", **fields}
    (path / "adapter_config.json").write_text(json.dumps(config))
    tensors: dict[str, torch.Tensor] = {}
    for name, (down, up) in pairs.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = down.contiguous()
        tensors[f"base_model.model.{name}.lora_B.weight"] = up.contiguous()
    save_file(tensors, path / "adapter_model.safetensors")
    return path


def save_merged(path: Path, base: Path, pairs: Pairs, *, scale: float = 2.0) -> Path:
    """Write the model with the adapter merged into its weights."""
    model = plain_model(base)
    with torch.no_grad():
        for name, (down, up) in pairs.items():
            cast(nn.Linear, model.get_submodule(name)).weight += scale * up @ down
    model.save_pretrained(path)
    save_tokenizer(path)
    return path


def wire(tensor: torch.Tensor) -> Tensor:
    """Return the tensor's wire format, in its dtype: float32, float16 or int32."""
    return Tensor(
        dtype=str(tensor.dtype).removeprefix("torch."),  # pyright: ignore[reportArgumentType]  # one of its names
        shape=tuple(tensor.shape),
        data=tensor.contiguous().numpy().tobytes(),
    )


def trt_tensors(pairs: Pairs, *, scale: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return lora_weights [N, W] with the scale in B, and lora_config [N, 3]."""
    rows: list[torch.Tensor] = []
    config: list[list[int]] = []
    for name, (down, up) in pairs.items():
        layer, leaf = int(name.split(".")[2]), name.rpartition(".")[2]
        rows.append(torch.cat((down.flatten(), (scale * up).flatten())))
        config.append([TRT_ID[leaf], layer, down.shape[0]])
    width = max(row.shape[0] for row in rows)
    padded = [nn.functional.pad(row, (0, width - row.shape[0])) for row in rows]
    return torch.stack(padded), torch.tensor(config, dtype=torch.int32)


def trt_lora(task: int, pairs: Pairs, *, scale: float = 2.0) -> LoraRequest:
    weights, config = trt_tensors(pairs, scale=scale)
    return LoraRequest(task_id=task, weights=wire(weights), config=wire(config))


def sites_of(folder: Path) -> AdapterSites:
    sites = load(str(folder), device="cpu", dtype=torch.float32, adapters=True).sites
    assert sites is not None
    return sites


def weights_of(sites: AdapterSites, adapter: Adapter, site: Site) -> torch.Tensor:
    """Return what the adapter adds to the site's weight, [out, in]."""
    place, first = sites.place(site.name)
    product = adapter.products.get(place)
    if product is None:
        return torch.zeros(site.outputs, site.inputs)
    out = torch.zeros(site.inputs, first + site.outputs + MARGIN)
    product.delta(torch.eye(site.inputs), out)
    return out[:, first : first + site.outputs].t()
