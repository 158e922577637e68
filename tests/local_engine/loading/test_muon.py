"""The optimizer that trains the bundled model makes torch's updates, in float32."""

import pytest

pytest.importorskip("torch")

import torch

from tools.tiny_chat.muon import Muon, orthogonal

RATE, DECAY = 4e-3, 0.1


def test_its_updates_are_those_of_torch_but_for_the_rounding_to_bfloat16() -> None:
    random = torch.Generator().manual_seed(5)
    shapes = [(64, 64), (32, 64), (128, 64), (64, 128), (64, 64)]
    mine = [torch.nn.Parameter(torch.randn(shape, generator=random) * 0.05) for shape in shapes]
    theirs = [torch.nn.Parameter(each.detach().clone()) for each in mine]
    begun = [each.detach().clone() for each in mine]
    own = Muon(mine, weight_decay=DECAY)
    reference = torch.optim.Muon(
        theirs, lr=RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"
    )

    for _ in range(4):
        for one, other in zip(mine, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=random)
            other.grad = one.grad.clone()
        own.step(RATE)
        reference.step()  # pyright: ignore[reportUnknownMemberType]  # untyped in torch

    for one, other, start in zip(mine, theirs, begun, strict=True):
        apart = (one - other).square().sum()
        assert apart < (0.02**2) * (other - start).square().sum()


@pytest.mark.parametrize("shape", [(2, 64, 128), (3, 32, 64)])
def test_the_singular_values_of_a_step_are_about_one(shape: tuple[int, int, int]) -> None:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(6))

    step = orthogonal(drawn)

    for matrix in step:
        _, values, _ = torch.svd(matrix)
        assert 0.6 < float(values[-1]) <= float(values[0]) < 1.25
