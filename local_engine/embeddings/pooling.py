"""Pool a text's hidden states to one vector: pooling, linear layers, normalisation."""

# torch and safetensors annotate these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from strowger_gateway.local_engine.embeddings.sentence_transformers import (
    Activation,
    Dense,
    Mode,
    Normalise,
    Pooling,
    VectorStep,
)
from strowger_gateway.schemas.errors import InvalidConfig

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "Identity": lambda x: x,
    "Tanh": torch.tanh,
    "ReLU": torch.relu,
    "GELU": nn.functional.gelu,
    "SiLU": nn.functional.silu,
    "Sigmoid": torch.sigmoid,
}


def pool(hidden: Tensor, first: Tensor, last: Tensor, pooling: Pooling) -> Tensor:
    """Return one vector per row, the modes concatenated.

    hidden: [B, T, H], any float; rows are padded on the right.
    first:  [B] int64, the first token that counts; last: [B] int64, the last one, itself counted.
    Returns [B, H x modes] float32.
    """
    places = torch.arange(hidden.shape[1], device=hidden.device)
    inside = (places >= first[:, None]) & (places <= last[:, None])
    hidden = hidden.float()
    return torch.cat([_MODES[mode](hidden, inside, first, last) for mode in pooling.modes], dim=-1)


def _at(hidden: Tensor, places: Tensor) -> Tensor:
    return hidden[torch.arange(len(hidden), device=hidden.device), places]


def _total(hidden: Tensor, inside: Tensor) -> Tensor:
    return hidden.masked_fill(~inside[..., None], 0.0).sum(dim=1)


def _cls(hidden: Tensor, inside: Tensor, first: Tensor, last: Tensor) -> Tensor:
    return _at(hidden, first)


def _last(hidden: Tensor, inside: Tensor, first: Tensor, last: Tensor) -> Tensor:
    return _at(hidden, last)


def _max(hidden: Tensor, inside: Tensor, first: Tensor, last: Tensor) -> Tensor:
    return hidden.masked_fill(~inside[..., None], float("-inf")).amax(dim=1)


def _mean(hidden: Tensor, inside: Tensor, first: Tensor, last: Tensor) -> Tensor:
    return _total(hidden, inside) / inside.sum(dim=1)[:, None]


def _mean_sqrt(hidden: Tensor, inside: Tensor, first: Tensor, last: Tensor) -> Tensor:
    return _total(hidden, inside) / inside.sum(dim=1)[:, None].sqrt()


def _weighted(hidden: Tensor, inside: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Weight each token by its place in the row, counted from 1."""
    weights = torch.arange(1, hidden.shape[1] + 1, device=hidden.device) * inside
    return _total(hidden * weights[..., None], inside) / weights.sum(dim=1)[:, None]


_MODES: dict[Mode, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "cls": _cls,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt,
    "weightedmean": _weighted,
    "lasttoken": _last,
}


class VectorSteps:
    """The steps after pooling, with their weights on the device, in float32."""

    def __init__(self, steps: tuple[VectorStep, ...], width: int, device: str) -> None:
        """width: of the pooled vectors. Raises InvalidConfig for weights that do not match."""
        self._steps: list[Callable[[Tensor], Tensor]] = []
        self.width = width
        for step in steps:
            match step:
                case Normalise():
                    self._steps.append(_normalise)
                case Dense():
                    self._steps.append(_Dense(step, self.width, device))
                    self.width = step.outputs
        self.unit = bool(steps) and isinstance(steps[-1], Normalise)

    def __call__(self, vectors: Tensor) -> Tensor:
        """vectors: [B, width before] float32 -> [B, width] float32."""
        for step in self._steps:
            vectors = step(vectors)
        return vectors


class _Dense:
    def __init__(self, dense: Dense, width: int, device: str) -> None:
        if dense.inputs != width:
            raise InvalidConfig(
                (f"{dense.weights}: expects {dense.inputs} numbers, but gets {width}",)
            )
        found = _weights(dense)
        try:
            self._weight = found["linear.weight"].to(device).float()
            self._bias = found["linear.bias"].to(device).float() if dense.bias else None
            self._around = (
                found["residual.weight"].to(device).float()
                if (dense.residual and dense.inputs != dense.outputs)
                else None
            )
        except KeyError as exc:
            raise InvalidConfig((f"{dense.weights}: {exc} is missing",)) from exc
        if self._weight.shape != (dense.outputs, dense.inputs):
            raise InvalidConfig(
                (f"{dense.weights}: wrong matrix shape {tuple(self._weight.shape)}",)
            )
        self._residual = dense.residual
        self._activation = ACTIVATIONS[dense.activation]

    def __call__(self, vectors: Tensor) -> Tensor:
        found = self._activation(nn.functional.linear(vectors, self._weight, self._bias))
        if not self._residual:
            return found
        around = vectors if self._around is None else nn.functional.linear(vectors, self._around)
        return found + around


def _weights(dense: Dense) -> dict[str, Tensor]:
    """Load the weights; torch files are read without running code in them."""
    if dense.weights.suffix == ".safetensors":
        return load_file(dense.weights)
    return cast(dict[str, Tensor], torch.load(dense.weights, map_location="cpu", weights_only=True))


def _normalise(vectors: Tensor) -> Tensor:
    return nn.functional.normalize(vectors, dim=-1)
