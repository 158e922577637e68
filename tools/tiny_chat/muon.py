"""Muon in float32, for the matrices of the model's layers.

https://kellerjordan.github.io/posts/muon describes it. `torch.optim.Muon` makes the same updates,
one matrix at a time and in bfloat16, which many processors compute slowly.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

MOMENTUM = 0.95
STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
EPSILON = 1e-7


class Muon:
    """Gives each matrix steps whose singular values are all about one.

    Matrices of one shape, or of its transpose, are updated together as one stack.
    """

    def __init__(self, matrices: Sequence[torch.nn.Parameter], *, weight_decay: float) -> None:
        shapes: dict[tuple[int, int], list[torch.nn.Parameter]] = {}
        for each in matrices:
            rows, columns = sorted(each.shape)
            shapes.setdefault((rows, columns), []).append(each)
        self._decay = weight_decay
        self._stacks = [(stack, _stacked(stack)) for stack in shapes.values()]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update all matrices from their gradients. rate: its steps are as large as AdamW's."""
        for stack, momentum in self._stacks:
            gradients = torch.stack([_wide(_gradient(each)) for each in stack])
            momentum.lerp_(gradients, 1 - MOMENTUM)
            steps = orthogonal(gradients.lerp_(momentum, MOMENTUM))
            size = 0.2 * steps.shape[-1] ** 0.5
            for each, step in zip(stack, steps, strict=True):
                each.mul_(1 - rate * self._decay)
                _wide(each).add_(step, alpha=-rate * size)


def orthogonal(matrices: Tensor) -> Tensor:
    """Replace the singular values of `[N, R, C]` matrices, R <= C, by others from 0.6 to 1.2.

    Values under a thousandth of a matrix's norm end below that.
    """
    a, b, c = COEFFICIENTS
    norms = matrices.square().sum((1, 2), keepdim=True).sqrt()
    drawn = matrices / norms.clamp(min=EPSILON)
    for _ in range(STEPS):
        gram = drawn @ drawn.mT
        drawn = torch.baddbmm(
            drawn, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), drawn, beta=a
        )
    return drawn


def _stacked(stack: Sequence[torch.nn.Parameter]) -> Tensor:
    """Momenta of zero, on the matrices' device."""
    return torch.stack([torch.zeros_like(_wide(each.detach())) for each in stack])


def _gradient(weight: torch.nn.Parameter) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def _wide(matrix: Tensor) -> Tensor:
    """A view with at least as many columns as rows."""
    return matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix
