"""top_k_top_p_sample again, one row at a time, slow and plain: twice, in torch and in numpy."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float64]
CLOSE = 1e-5


class Expected(NamedTuple):
    """token: the one picked. kept: float32 [V], original logits of the survivors, else -inf."""

    token: int
    kept: Tensor


def literal(logits: Tensor, k: int, p: float, q: Tensor | None, eps: float = 1e-8) -> Expected:
    """One row, float32 [V], in the operator's own arithmetic and order of operations."""
    vocabulary = logits.numel()
    use_k, use_p = 1 <= k <= min(vocabulary, 1024), p < 1
    ids = torch.arange(vocabulary)
    if use_k or use_p:
        ids = logits.argsort(dim=0, stable=True, descending=True)
        ids = ids[:k] if use_k else ids
    probabilities = logits[ids].softmax(0)
    if use_p:
        keep = probabilities.cumsum(0) - probabilities < p
        keep[0] = True
        ids, probabilities = ids[keep], probabilities[keep]
    score = probabilities if q is None else probabilities / (q[: len(ids)].abs() + eps)
    kept = torch.full((vocabulary,), -torch.inf)
    kept[ids] = logits[ids]
    return Expected(int(ids[score.argmax()]), kept)


class Plain(NamedTuple):
    """token, kept: bool [V], as in exact arithmetic. doubtful: rounding may decide otherwise."""

    token: int
    kept: npt.NDArray[np.bool_]
    doubtful: bool


def plain(logits: Floats, k: int, p: float, q: Floats | None, eps: float = 1e-8) -> Plain:
    """One row, float64 [V], in numpy: the operator's definition, regardless of rounding."""
    vocabulary = len(logits)
    use_k, use_p = 1 <= k <= min(vocabulary, 1024), p < 1
    ids = np.arange(vocabulary)
    if use_k or use_p:
        ids = np.argsort(-logits, kind="stable")
    if use_k:
        ids = ids[:k]
    weights = np.exp(logits[ids] - logits.max())
    probabilities = weights / weights.sum()
    doubtful = False
    if use_p:
        before = 0.0
        count = 0
        for share in probabilities:
            doubtful |= abs(before - p) < CLOSE and count > 0
            if count > 0 and before >= p:
                break
            count += 1
            before += float(share)
        ids = ids[:count]
    scores = probabilities[: len(ids)]
    if q is not None:
        scores = scores / (np.abs(q[: len(ids)]) + eps)
    best = int(np.argmax(scores))
    runner_up = np.delete(scores, best).max(initial=0.0)
    near = bool(runner_up > scores[best] * (1 - CLOSE))
    doubtful |= near and (q is not None or bool(runner_up != scores[best]))
    kept = np.zeros(vocabulary, dtype=np.bool_)
    kept[ids] = True
    return Plain(int(ids[best]), kept, doubtful)
