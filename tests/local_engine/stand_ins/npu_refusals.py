"""How the stand-in rejects arguments, and their types."""

import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)

Value = Tensor | torch.Generator | list[Tensor] | list[int] | int | float | bool | str | None


def refuse_unless(holds: bool, rule: str) -> None:
    """Raises RuntimeError, as a failing aclnn call does."""
    if not holds:
        raise RuntimeError(f"aclnnStatus 161002: {rule}")
