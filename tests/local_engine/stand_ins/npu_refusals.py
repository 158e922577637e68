"""How the stand-in says no, and what may be handed to it."""

import torch
from torch import Tensor

Value = Tensor | torch.Generator | list[int] | int | float | bool | str | None


def refuse_unless(holds: bool, rule: str) -> None:
    """Raises RuntimeError, as a refusing aclnn call does."""
    if not holds:
        raise RuntimeError(f"aclnnStatus 161002: {rule}")
