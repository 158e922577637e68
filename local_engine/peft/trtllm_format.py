"""Read adapters from TensorRT-LLM's requests: lora_weights and lora_config.

https://nvidia.github.io/TensorRT-LLM/advanced/lora.html: row i of the weights is A, [D, Hi],
flattened, then B, [Ho, D], flattened, then padding; row i of the configuration is module id,
layer, D. B includes the scale. Module 5 is the gate of a gated MLP and 7 is the other projection,
contrary to that page's table: its converter writes them this way
(examples/hf_lora_convert.py: gate_proj is mlp_h_to_4h, up_proj is mlp_gate).
"""

from collections.abc import Mapping
from hashlib import blake2b

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.peft.lora_layers import Adapter, AdapterSites, Factors, Site
from strowger_gateway.local_engine.protocol import tensors as wire_tensors
from strowger_gateway.schemas import tensors
from strowger_gateway.schemas.errors import InvalidRequest

WEIGHTS, CONFIG = "lora_weights", "lora_config"
JOINED_HALVES = "gate_up_proj"
"""transformers stores the gate first, TensorRT-LLM last; its converter swaps the halves of B."""


class Module(Struct, frozen=True, kw_only=True):
    """A module of TensorRT-LLM. leaves: possible sites; the first one that a layer has is used.

    parts: sites that it covers side by side, if a layer has those instead.
    """

    name: str
    leaves: tuple[str, ...]
    parts: tuple[str, ...] = ()


MODULES: Mapping[int, Module] = {
    0: Module(
        name="attn_qkv",
        leaves=("qkv_proj", "query_key_value", "Wqkv", "c_attn"),
        parts=("q_proj", "k_proj", "v_proj"),
    ),
    1: Module(name="attn_q", leaves=("q_proj",)),
    2: Module(name="attn_k", leaves=("k_proj",)),
    3: Module(name="attn_v", leaves=("v_proj",)),
    4: Module(name="attn_dense", leaves=("o_proj", "out_proj", "dense")),
    5: Module(
        name="mlp_h_to_4h",
        leaves=("gate_proj", JOINED_HALVES, "fc1", "c_fc", "dense_h_to_4h", "up_proj"),
    ),
    6: Module(name="mlp_4h_to_h", leaves=("down_proj", "fc2", "c_proj", "dense_4h_to_h")),
    7: Module(name="mlp_gate", leaves=("up_proj",)),
}


class Row(Struct, frozen=True, kw_only=True):
    """A row of both tensors, in terms of the model. sites: one, or several side by side."""

    sites: tuple[Site, ...]
    rank: int

    @property
    def inputs(self) -> int:
        return self.sites[0].inputs

    @property
    def outputs(self) -> int:
        return sum(site.outputs for site in self.sites)

    @property
    def numbers(self) -> int:
        return self.rank * (self.inputs + self.outputs)


def read_adapter(
    weights: tensors.Tensor, config: tensors.Tensor, sites: AdapterSites, *, most_bytes: int
) -> Adapter:
    """weights: [N, W] or [1, N, W], floats. config: [N, 3] or [1, N, 3], integers; an optional
    fourth column marks DoRA rows, which are rejected.

    most_bytes: of the adapter in memory. Raises InvalidRequest.
    """
    table = _matrix(wire_tensors.integers(config, CONFIG), CONFIG)
    packed = _matrix(wire_tensors.floats(weights, WEIGHTS), WEIGHTS)
    if table.shape[0] != packed.shape[0]:
        raise _refused(WEIGHTS, f"{packed.shape[0]} rows, but {CONFIG} has {table.shape[0]}")
    rows = _rows(table, sites, packed.shape[1])
    size = sum(row.numbers for row in rows) * sites.item_bytes
    if size > most_bytes:
        raise _refused(WEIGHTS, f"the adapter takes {size} bytes; at most {most_bytes} are allowed")
    factors: dict[str, Factors] = {}
    for row, flat in zip(rows, packed, strict=True):
        factors |= _split(row, flat)
    digest = blake2b(f"{weights.dtype}{weights.shape}{config.dtype}".encode(), digest_size=16)
    digest.update(config.data)
    digest.update(weights.data)
    try:
        return sites.adapter(factors, digest.digest())
    except ValueError as exc:
        raise _refused(WEIGHTS, str(exc)) from exc


def _matrix(tensor: Tensor, field: str) -> Tensor:
    matrix = tensor[0] if tensor.dim() == 3 and tensor.shape[0] == 1 else tensor
    if matrix.dim() != 2 or 0 in matrix.shape:
        raise _refused(field, f"shape {list(tensor.shape)} must be a table with one row per module")
    return matrix


def _rows(table: Tensor, sites: AdapterSites, width: int) -> list[Row]:
    if table.shape[1] not in (3, 4):
        raise _refused(
            CONFIG, f"a row has {table.shape[1]} numbers; send 3: module, layer and rank"
        )
    layers: dict[int, dict[str, Site]] = {}
    for site in sites.sites:
        layers.setdefault(site.layer, {})[site.leaf] = site
    rows: list[Row] = []
    taken: set[str] = set()
    for place, entry in enumerate(_numbers(table)):
        row = _row(entry, layers, f"[{place}]")
        if row.numbers > width:
            raise _refused(
                WEIGHTS,
                f"[{place}]: {width} numbers, but rank {row.rank} of "
                f"{row.inputs} in and {row.outputs} out needs {row.numbers}",
            )
        for site in row.sites:
            if site.name in taken:
                raise _refused(
                    CONFIG, f"[{place}]: {site.name} is already adapted by an earlier row"
                )
            taken.add(site.name)
        rows.append(row)
    return rows


def _row(entry: list[int], layers: Mapping[int, Mapping[str, Site]], where: str) -> Row:
    id, layer, rank, *dora = entry
    module = MODULES.get(id)
    if module is None:
        names = ", ".join(f"{known} {one.name}" for known, one in MODULES.items())
        raise _refused(CONFIG, f"{where}: module {id} is not supported; use one of {names}")
    if any(dora):
        raise _refused(CONFIG, f"{where}: DoRA is not supported")
    if rank < 1:
        raise _refused(CONFIG, f"{where}: rank {rank} must be 1 or more")
    found = layers.get(layer)
    if found is None:
        raise _refused(CONFIG, f"{where}: the model has no layer {layer}; it has {len(layers)}")
    for leaf in module.leaves:
        if leaf in found:
            return Row(sites=(found[leaf],), rank=rank)
    if module.parts and all(part in found for part in module.parts):
        return Row(sites=tuple(found[part] for part in module.parts), rank=rank)
    raise _refused(CONFIG, f"{where}: layer {layer} of this model has no {module.name}")


def _split(row: Row, flat: Tensor) -> dict[str, Factors]:
    """flat: [W], the row's numbers, then padding."""
    inner = row.rank * row.inputs
    down = flat[:inner].reshape(row.rank, row.inputs)
    up = flat[inner : row.numbers].reshape(row.outputs, row.rank)
    if row.sites[0].leaf == JOINED_HALVES:
        up = torch.cat((up[row.outputs // 2 :], up[: row.outputs // 2]))
    factors: dict[str, Factors] = {}
    first = 0
    for site in row.sites:
        factors[site.name] = Factors(down=down, up=up[first : first + site.outputs])
        first += site.outputs
    return factors


def _numbers(table: Tensor) -> list[list[int]]:
    return [[int(number) for number in row] for row in table]


def _refused(field: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {why}", param=field)
