"""Tensors as plain Python values, with types."""

from typing import cast

from torch import Tensor


def integers(tensor: Tensor) -> list[int]:
    """The items of an integer or bool tensor, flattened."""
    return [int(item) for item in tensor.flatten()]


def numbers(tensor: Tensor) -> list[float]:
    """The items of a float tensor, flattened."""
    return [float(item) for item in tensor.flatten()]


def finite_places(row: Tensor) -> set[int]:
    """Where a [V] tensor is finite."""
    return set(integers(row.isfinite().nonzero()))


def nested(tensor: Tensor) -> list[list[int]]:
    """A two-dimensional integer tensor as lists."""
    return cast("list[list[int]]", tensor.tolist())  # pyright: ignore[reportUnknownMemberType]  # torch
