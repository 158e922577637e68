"""The stand-in's sampling operators: aclnnTopKTopPSample in both versions, and the filter alone."""

import torch
from torch import Tensor

from tests.local_engine.stand_ins.npu_refusals import HALVES, Value, refuse_unless

MOST = 1024


def sample_v1(given: dict[str, Value]) -> tuple[Tensor, Tensor]:
    """Two-byte dtypes only; later arguments do not exist for it. Its top-p alone is flattened."""
    logits = given["logits"]
    assert isinstance(logits, Tensor)
    refuse_unless(logits.dtype in HALVES, "logits: float16 or bfloat16")
    refuse_unless(given["min_ps"] is None, "min_ps: version 1 has no such argument")
    refuse_unless(given["post_sample"] == "qSample", "post_sample: version 1 has no such argument")
    top_k = given["top_k"]
    assert isinstance(top_k, Tensor)
    refuse_unless(bool((top_k != 0).all()), "top_k: 0")
    return _sample(given, flattened=True)


def sample_v2(given: dict[str, Value]) -> tuple[Tensor, Tensor]:
    logits = given["logits"]
    assert isinstance(logits, Tensor)
    refuse_unless(logits.dtype in (*HALVES, torch.float32), "logits: a float dtype")
    refuse_unless(given["post_sample"] == "qSample", "post_sample: not needed here")
    return _sample(given, flattened=False)


def top_k_top_p(given: dict[str, Value]) -> Tensor:
    """Mask the tokens that k and p remove; ties at the k-th value stay."""
    logits, p, k = given["logits"], given["p"], given["k"]
    assert isinstance(logits, Tensor)
    assert isinstance(p, Tensor)
    assert isinstance(k, Tensor)
    refuse_unless(k.dtype == torch.int32 and p.dtype == logits.dtype, "dtypes of k and p")
    refuse_unless(bool(((k >= 1) & (k <= MOST)).all()), "k within 1 and 1024")
    ordered, ids = logits.sort(dim=-1, stable=True)
    least = ordered.gather(1, (logits.shape[1] - k.long()).unsqueeze(1))
    ordered = ordered.masked_fill(ordered < least, -torch.inf)
    reached = ordered.softmax(-1).cumsum(-1)
    drop = reached <= 1 - p.unsqueeze(1)
    drop[:, -1] = False
    ordered = ordered.masked_fill(drop, -torch.inf)
    return torch.empty_like(logits).scatter_(1, ids, ordered)


def _sample(given: dict[str, Value], *, flattened: bool) -> tuple[Tensor, Tensor]:
    logits, top_k, top_p, q = (given[name] for name in ("logits", "top_k", "top_p", "q"))
    assert isinstance(logits, Tensor)
    assert isinstance(top_k, Tensor)
    assert isinstance(top_p, Tensor)
    guess, eps = given["top_k_guess"], given["eps"]
    assert isinstance(guess, int)
    assert isinstance(eps, float)
    refuse_unless(logits.dim() == 2 and 0 < logits.shape[1] <= 1 << 20, "logits: [B, V]")
    rows = logits.shape[0]
    refuse_unless(top_k.dtype == torch.int32 and top_k.shape == (rows,), "top_k: int32 [B]")
    refuse_unless(top_p.dtype == logits.dtype and top_p.shape == (rows,), "top_p: as logits, [B]")
    refuse_unless(guess > 0, "top_k_guess: positive")
    if q is not None:
        assert isinstance(q, Tensor)
        refuse_unless(q.dtype == torch.float32 and q.shape == logits.shape, "q: float32 [B, V]")
    picked = torch.empty(rows, dtype=torch.int64)
    kept = torch.full(logits.shape, -torch.inf)
    for row in range(rows):
        noise = q[row] if isinstance(q, Tensor) else None
        k, p = int(top_k[row]), float(top_p[row])
        exact = logits[row].float()
        picked[row], left = _row(exact, k, p, noise, eps, flattened=flattened)
        kept[row, left] = exact[left]
    return picked, kept if given["is_need_logits"] else torch.empty(0)


def _row(
    logits: Tensor, k: int, p: float, q: Tensor | None, eps: float, *, flattened: bool
) -> tuple[Tensor, Tensor]:
    """Return the token and the remaining ids; float32 [V] and [V] in."""
    use_k, use_p = 1 <= k <= min(len(logits), MOST), p < 1
    ids = torch.arange(len(logits))
    if use_k or use_p:
        ids = logits.argsort(stable=True, descending=True)
        ids = ids[:k] if use_k else ids
    highest = logits[ids].max().clamp_min(0) if flattened else logits[ids].max()
    weights = (logits[ids] - highest).exp()
    shares = weights / weights.sum()
    if use_p:
        before = shares.cumsum(0) - shares
        keep = before <= p if flattened else before < p
        keep[0] = True
        ids, shares = ids[keep], shares[keep]
        if flattened and not use_k:
            shares = shares.softmax(0)
    score = shares if q is None else shares / (q[: len(ids)].abs() + eps)
    return ids[score.argmax()], ids
