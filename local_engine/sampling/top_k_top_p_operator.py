"""A sampling operator with the contract of Ascend's aclnnTopKTopPSample, on any device.

https://www.hiascend.com/document/detail/zh/CANNCommunityEdition/82RC1/API/aolapi/context/aclnnTopKTopPSample.md

Per row: the k largest logits, then their smallest prefix whose probability reaches p, then the
largest probability / q, which samples from the survivors if q is exponential noise. Each of the
three may be off, so there are eight scenarios. If the operator's versions differ, this follows
version 2: one softmax, ties cut by the lower id, the boundary token kept only below p.

The engine samples with `local_engine/sampling/sampler.py`. This operator is the reference for a
device's kernel. If the device's operator passed its tests (`use_operator`), it is called for the
rows that it computes identically.
"""

from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.sampling.top_candidates import block_maxima, top_candidates

K_MAX = 1024
V_MAX = 1 << 20
NULL_OPERAND = 161001
BAD_OPERAND = 161002
_LOGIT_TYPES = (torch.float16, torch.bfloat16, torch.float32)
_MARGIN = 2e-5


class InvalidOperand(ValueError):
    """An operand violates a rule of the operator.

    argument: its name. rule: the violated rule. status: the aclnnStatus that the operator
    returns, 161001 (null pointer) or 161002 (wrong type or shape).
    """

    def __init__(self, argument: str, rule: str, status: int) -> None:
        super().__init__(f"{argument}: {rule} (aclnnStatus {status})")
        self.argument = argument
        self.rule = rule
        self.status = status


class Operator(Protocol):
    """A device's own kernel; arguments as in `top_k_top_p_sample`, checked."""

    def takes_rows(self, logits: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
        """Return bool [B]: the rows whose result matches this specification."""
        ...

    def __call__(
        self,
        logits: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        q: Tensor | None,
        *,
        eps: float,
        is_need_logits: bool,
        top_k_guess: int,
    ) -> tuple[Tensor, Tensor | None]: ...


_operators: dict[str, Operator] = {}


def use_operator(device_type: str, operator: Operator | None) -> None:
    """Sample tensors on devices of this type with `operator` from now on; `None`: with torch."""
    if operator is None:
        _operators.pop(device_type, None)
    else:
        _operators[device_type] = operator


class _Cut(Struct, frozen=True, kw_only=True):
    """The candidates of some rows after top-k and top-p, by rank.

    rows: int64 [R] row numbers. ids: int64 [R, K]. probabilities: float32 [R, K].
    keep: bool [R, K].
    """

    rows: Tensor
    ids: Tensor
    probabilities: Tensor
    keep: Tensor


def top_k_top_p_sample(
    logits: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    q: Tensor | None = None,
    *,
    eps: float = 1e-8,
    is_need_logits: bool = False,
    top_k_guess: int = 32,
) -> tuple[Tensor, Tensor | None]:
    """Pick one token per row.

    logits: [B, V] float16, bfloat16 or float32, finite or -inf, any strides; B >= 1 and
        1 <= V <= 2**20. Left untouched.
    top_k: int32 [B]. Outside 1 … min(V, 1024) the row skips top-k.
    top_p: [B], the dtype of `logits`. 1 or more skips top-p; 0 or less keeps one token.
    q: `None` for the most probable token, or float32 [B, V]; its absolute value divides the
        probabilities. A row that top-k or top-p cuts reads q by rank, others by token id.
    eps: added to |q|, 0 or more.
    is_need_logits: return the surviving logits as well.
    top_k_guess: candidates tried before a top-p row is sorted, 1 or more. Never changes a result.

    Returns int64 [B] token ids, and float32 [B, V] with the original logits of the survivors and
    -inf elsewhere, or `None`. Equal logits rank by the lower id.

    Which rows need which method is read on the host, so this waits for the device.
    Raises InvalidOperand.
    """
    _check_logits(logits)
    _check_rows("top_k", top_k, logits, torch.int32)
    _check_rows("top_p", top_p, logits, logits.dtype)
    _check_noise(q, logits)
    _check_scalars(eps, top_k_guess)

    operator = _operators.get(logits.device.type)
    if operator is None:
        return _by_torch(logits, top_k, top_p, q, eps, is_need_logits, top_k_guess)
    return _by_operator(operator, logits, top_k, top_p, q, eps, is_need_logits, top_k_guess)


def _by_operator(
    operator: Operator,
    logits: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    q: Tensor | None,
    eps: float,
    is_need_logits: bool,
    top_k_guess: int,
) -> tuple[Tensor, Tensor | None]:
    """Use the device's operator for the rows that it takes, torch for the others."""
    taken = operator.takes_rows(logits, top_k, top_p)
    if bool(taken.all()):
        return operator(
            logits, top_k, top_p, q, eps=eps, is_need_logits=is_need_logits, top_k_guess=top_k_guess
        )
    picked = torch.empty(logits.size(0), dtype=torch.int64, device=logits.device)
    kept = torch.empty_like(logits, dtype=torch.float32) if is_need_logits else None
    for part, own in ((taken, True), (~taken, False)):
        rows = part.nonzero().squeeze(1)
        if rows.numel() == 0:
            continue
        chosen, ks, ps = (one.index_select(0, rows) for one in (logits, top_k, top_p))
        noise = None if q is None else q.index_select(0, rows)
        if own:
            ids, left = operator(
                chosen,
                ks,
                ps,
                noise,
                eps=eps,
                is_need_logits=is_need_logits,
                top_k_guess=top_k_guess,
            )
        else:
            ids, left = _by_torch(chosen, ks, ps, noise, eps, is_need_logits, top_k_guess)
        picked.index_copy_(0, rows, ids)
        if kept is not None and left is not None:
            kept.index_copy_(0, rows, left)
    return picked, kept


def _by_torch(
    logits: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    q: Tensor | None,
    eps: float,
    is_need_logits: bool,
    top_k_guess: int,
) -> tuple[Tensor, Tensor | None]:
    """`top_k_top_p_sample` in torch's operations; its arguments are checked."""
    values = logits.to(torch.float32).contiguous() + 0.0  # -0.0 ties with 0.0
    mass = top_p.to(torch.float32)
    use_k = (top_k >= 1) & (top_k <= min(values.size(1), K_MAX))
    use_p = mass < 1
    picked = torch.empty(values.size(0), dtype=torch.int64, device=values.device)
    kept = torch.full_like(values, -torch.inf) if is_need_logits else None
    by_k = use_k.nonzero().squeeze(1)
    by_p = (use_p & ~use_k).nonzero().squeeze(1)
    uncut = (~use_p & ~use_k).nonzero().squeeze(1)

    cuts: list[_Cut] = []
    if by_k.numel() > 0:
        cuts.extend(_cut_by_k(values, by_k, top_k.index_select(0, by_k), mass))
    if by_p.numel() > 0:
        cuts.extend(_cut_by_p(values, by_p, mass, min(top_k_guess, values.size(1), K_MAX)))
    if uncut.numel() > 0:
        cuts.append(_cut_nothing(values, uncut))
    for cut in cuts:
        _pick(cut, values, q, eps, picked, kept)
    return picked, kept


def _cut_by_k(values: Tensor, rows: Tensor, top_k: Tensor, mass: Tensor) -> list[_Cut]:
    """Rows with a valid k: probabilities are among the k survivors."""
    best = top_candidates(values, block_maxima(values), int(top_k.max()), rows)
    inside = torch.arange(best.ids.size(1), device=values.device) < top_k.unsqueeze(1)
    probabilities = best.values.masked_fill(~inside, -torch.inf).softmax(-1)
    limit = mass.index_select(0, rows).unsqueeze(1)
    close = _is_close(probabilities, limit) & (limit < 1).squeeze(1)
    keep = _reaches(probabilities, limit) & inside
    whole = _Cut(rows=rows, ids=best.ids, probabilities=probabilities, keep=keep)
    cuts = [_select(whole, (~close).nonzero().squeeze(1))]
    for row in close.nonzero().unbind(0):
        size = int(top_k.index_select(0, row))
        share = best.values.index_select(0, row)[:, :size].softmax(-1)
        keep = _reaches(share, limit.index_select(0, row))
        ids = best.ids.index_select(0, row)[:, :size]
        cuts.append(_Cut(rows=rows.index_select(0, row), ids=ids, probabilities=share, keep=keep))
    return cuts


def _cut_by_p(values: Tensor, rows: Tensor, mass: Tensor, guess: int) -> list[_Cut]:
    """Rows with p only: use the guess if its candidates are enough, otherwise sort."""
    chosen = values.index_select(0, rows)
    limit = mass.index_select(0, rows).unsqueeze(1)
    best = top_candidates(chosen, block_maxima(chosen), guess)
    share = chosen.softmax(-1).gather(1, best.ids)
    settled = (share.sum(-1, keepdim=True) > limit).squeeze(1) & ~_is_close(share, limit)
    guessed = _Cut(rows=rows, ids=best.ids, probabilities=share, keep=_reaches(share, limit))
    cuts = [_select(guessed, settled.nonzero().squeeze(1))]
    rest = (~settled).nonzero().squeeze(1)
    if rest.numel() > 0:
        ordered, ids = chosen.index_select(0, rest).sort(dim=-1, descending=True, stable=True)
        share = ordered.softmax(-1)
        keep = _reaches(share, limit.index_select(0, rest))
        cuts.append(_Cut(rows=rows.index_select(0, rest), ids=ids, probabilities=share, keep=keep))
    return cuts


def _cut_nothing(values: Tensor, rows: Tensor) -> _Cut:
    """Rows with neither: all tokens in the vocabulary's order."""
    probabilities = values.index_select(0, rows).softmax(-1)
    ids = torch.arange(values.size(1), device=values.device).expand_as(probabilities)
    keep = torch.ones_like(probabilities, dtype=torch.bool)
    return _Cut(rows=rows, ids=ids, probabilities=probabilities, keep=keep)


def _reaches(probabilities: Tensor, limit: Tensor) -> Tensor:
    """Return the tokens with less than `limit` [R, 1] before them, and the first; all if >= 1."""
    before = probabilities.cumsum(-1) - probabilities
    keep = (before < limit) | ~(limit < 1)
    keep[:, 0] = True
    return keep


def _is_close(probabilities: Tensor, limit: Tensor) -> Tensor:
    """Return the rows where float32 summation order may decide the last token, bool [R].

    They are recomputed at their own size, so that neighbours and guesses never affect the result.
    """
    reached = probabilities.cumsum(-1)
    before = reached - probabilities
    return (((before - limit).abs() < _MARGIN) | ((reached - limit).abs() < _MARGIN)).any(-1)


def _select(cut: _Cut, local: Tensor) -> _Cut:
    return _Cut(
        rows=cut.rows.index_select(0, local),
        ids=cut.ids.index_select(0, local),
        probabilities=cut.probabilities.index_select(0, local),
        keep=cut.keep.index_select(0, local),
    )


def _pick(
    cut: _Cut, values: Tensor, q: Tensor | None, eps: float, picked: Tensor, kept: Tensor | None
) -> None:
    """Write the rows of `cut` into `picked` [B] and `kept` [B, V]."""
    if cut.rows.numel() == 0:
        return
    score = cut.probabilities
    if q is not None:
        noise = q[:, : cut.ids.size(1)].index_select(0, cut.rows)
        score = score / noise.abs_().add_(eps)
    winner = score.masked_fill(~cut.keep, -1.0).argmax(-1, keepdim=True)
    picked.index_copy_(0, cut.rows, cut.ids.gather(1, winner).squeeze(1))
    if kept is not None:
        survivors = values.index_select(0, cut.rows).gather(1, cut.ids)
        survivors.masked_fill_(~cut.keep, -torch.inf)
        blank = torch.full((cut.rows.numel(), values.size(1)), -torch.inf, device=values.device)
        kept.index_copy_(0, cut.rows, blank.scatter_(1, cut.ids, survivors))


def _check_logits(logits: Tensor | None) -> None:
    if logits is None:
        raise InvalidOperand("logits", "must be a tensor, not None", NULL_OPERAND)
    if logits.dtype not in _LOGIT_TYPES:
        raise InvalidOperand(
            "logits", f"must be float16, bfloat16 or float32, not {logits.dtype}", BAD_OPERAND
        )
    if logits.dim() != 2 or logits.size(0) < 1 or not 1 <= logits.size(1) <= V_MAX:
        raise InvalidOperand(
            "logits",
            f"must be [B, V] with B >= 1 and 1 <= V <= {V_MAX}, not {list(logits.shape)}",
            BAD_OPERAND,
        )


def _check_rows(name: str, operand: Tensor | None, logits: Tensor, dtype: torch.dtype) -> None:
    if operand is None:
        raise InvalidOperand(name, "must be a tensor, not None", NULL_OPERAND)
    if operand.dtype != dtype:
        raise InvalidOperand(name, f"must be {dtype}, not {operand.dtype}", BAD_OPERAND)
    if operand.dim() != 1 or operand.size(0) != logits.size(0):
        raise InvalidOperand(
            name,
            f"must be [{logits.size(0)}], one for each row of logits, not {list(operand.shape)}",
            BAD_OPERAND,
        )
    _check_device(name, operand, logits)


def _check_noise(q: Tensor | None, logits: Tensor) -> None:
    if q is None:
        return
    if q.dtype != torch.float32:
        raise InvalidOperand("q", f"must be torch.float32, not {q.dtype}", BAD_OPERAND)
    if q.shape != logits.shape:
        raise InvalidOperand(
            "q",
            f"must have the shape of logits, {list(logits.shape)}, not {list(q.shape)}",
            BAD_OPERAND,
        )
    _check_device("q", q, logits)


def _check_device(name: str, operand: Tensor, logits: Tensor) -> None:
    if operand.device != logits.device:
        raise InvalidOperand(
            name, f"must be on {logits.device} like logits, not on {operand.device}", BAD_OPERAND
        )


def _check_scalars(eps: float, top_k_guess: int) -> None:
    if not 0 <= eps < float("inf"):
        raise InvalidOperand("eps", f"must be finite and 0 or more, not {eps}", BAD_OPERAND)
    if isinstance(top_k_guess, bool) or top_k_guess < 1:
        raise InvalidOperand("top_k_guess", f"must be 1 or more, not {top_k_guess}", BAD_OPERAND)
