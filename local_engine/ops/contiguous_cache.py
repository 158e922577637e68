"""The key/value cache for attention in torch's operations: contiguous per head."""

from math import prod
from mmap import mmap

import torch
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import AttentionParams, Plan, attend_rows


class KeyValueCache:
    """[K, S, D] keys and values per layer, allocated when the layer first uses them."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        found = self._layers.get(layer)
        if found is None:
            found = self._layers[layer] = (self._empty(key), self._empty(value))
        return found

    def write(self, layer: int, key: Tensor, value: Tensor, slots: Tensor) -> None:
        for kept, new in zip(self.of(layer, key, value), (key, value), strict=True):
            kept.index_copy_(1, slots, new.transpose(0, 1))

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layer: int,
        plan: Plan,
        params: AttentionParams,
    ) -> Tensor:
        return attend_rows(query, key, value, layer, plan, params)

    def copy(self, source: int, target: int, count: int) -> None:
        for pair in self._layers.values():
            for tensor in pair:
                tensor[:, target : target + count] = tensor[:, source : source + count]

    @property
    def layers(self) -> int:
        return len(self._layers)

    @property
    def slot_bytes(self) -> int:
        tensors = [tensor for pair in self._layers.values() for tensor in pair]
        return sum(t.element_size() * t.shape[0] * t.shape[2] for t in tensors)

    def _empty(self, like: Tensor) -> Tensor:
        """Return zeros, not uninitialised memory: a masked NaN would still spoil a weighted sum.

        On a CPU, use the system's zero pages, which take no memory until they are written. torch
        would write the zeros, and numpy requests 2 MiB pages, most of which would stay unused.
        """
        shape = (like.shape[1], self._slots, like.shape[2])
        if like.device.type != "cpu":
            return torch.zeros(shape, dtype=like.dtype, device=like.device)
        pages = mmap(-1, prod(shape) * like.element_size())
        return torch.frombuffer(pages, dtype=like.dtype).view(shape)
