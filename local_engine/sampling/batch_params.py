"""The sampling parameters of a batch as tensors, grouped by the method that each row needs.

Built when the batch's composition changes, and valid for every step until it changes again.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.sampling.counter_rng import row_keys
from strowger_gateway.local_engine.sampling.exact_device import exact_device
from strowger_gateway.local_engine.sampling.logits_processors import Processors
from strowger_gateway.local_engine.sampling.sampling_params import GREEDY_BELOW, RowParams
from strowger_gateway.local_engine.sampling.token_history import History, needs_history

NARROW = 64
WIDE = 1024
TIERS = (NARROW, WIDE, 16 * WIDE)
OFF = 1 << 20
"""The operator's value for "no top-k": larger than any k that it accepts."""

_AHEAD = 16
_STEP = 8


class Method(Enum):
    """How a row's token is found.

    GREEDY: the largest logit. NARROW, WIDE: from the 64 or 1024 largest. WHOLE: from more, up to
    the sorted vocabulary. FREE: no filter applies, so draw from the whole distribution at once.
    """

    GREEDY = "greedy"
    NARROW = "narrow"
    WIDE = "wide"
    WHOLE = "whole"
    FREE = "free"


class CutRows(Struct, frozen=True, kw_only=True):
    """Rows whose candidates are cut by at least one filter. R rows, columns are [R, 1], on the
    device that computes in float64 (`exact_device`).

    rows:        int64 [R] places in the batch; `None` is the whole batch, in order.
    count:       candidates examined first.
    unscaled:    every temperature is 1.
    temperature: float64. top_k: int64, V where off. top_p, min_p, typical_p: float64, 1, 0 and 1
                 where off. `None` where no row of these uses the filter.
    inside:      float64 [R, count], 1 for the ranks that top-k keeps, else 0; `None` if `top_k`
                 must be compared.
    closed:      bool; top-k limits the candidates, so there are never too few.
    floored:     bool; min_p limits the candidates. Rows neither closed nor floored need the mass
                 of the whole vocabulary: `by_mass`, int64 [M] places among these rows.
    """

    rows: Tensor | None
    count: int
    unscaled: bool
    temperature: Tensor
    top_k: Tensor | None = None
    top_p: Tensor | None = None
    min_p: Tensor | None = None
    typical_p: Tensor | None = None
    inside: Tensor | None = None
    closed: Tensor | None = None
    floored: Tensor | None = None
    by_mass: Tensor | None = None


class FreeRows(Struct, frozen=True, kw_only=True):
    """Rows that no filter cuts. rows, unscaled, temperature: as in `CutRows`."""

    rows: Tensor | None
    unscaled: bool
    temperature: Tensor


class SortedRows(Struct, frozen=True, kw_only=True):
    """Rows by the method that draws them. greedy: int64 places, `None` is the whole batch."""

    has_greedy: bool
    greedy: Tensor | None
    cut: tuple[CutRows, ...]
    free: FreeRows | None


class RowOperator(Protocol):
    """A device's own sampling kernel."""

    def takes(self, row: RowParams, vocabulary: int) -> bool:
        """True if it draws such a row from the same distribution as our sampler."""
        ...

    def draw(self, values: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
        """values: float32 [R, V] processed logits. temperature, top_p: float32 [R]; top_k: int32
        [R], over 1024 where off. Returns int64 [R].
        """
        ...


class FusedRows(Struct, frozen=True, kw_only=True):
    """Rows that the device's operator draws; columns in the form of `RowOperator.draw`.

    rows: int64 [R] places in the batch; `None` is the whole batch, in order.
    """

    operator: RowOperator
    rows: Tensor | None
    temperature: Tensor
    top_k: Tensor
    top_p: Tensor


class LogprobRows(Struct, frozen=True, kw_only=True):
    """Rows that request log probabilities.

    places: their places in the batch; rows: the same, int64 [R], `None` is all of them.
    count:  the most alternatives that any of them requests.
    """

    places: tuple[int, ...]
    rows: Tensor | None
    count: int


class SamplingRows:
    """One batch's parameters.

    params, positions: one of each for every row of the logits, in their order. A position counts
        the tokens that the row's answer already has; the noise depends only on (seed, position,
        token id).
    histories: `new_history(...)` of each row's answer, kept with the answer; optional if every one
        is `None`.
    operator: draws the rows that it `takes`, with its own noise.
    Call `advance(tokens)` after each step; create a new one when a row joins, leaves or moves.
    Raises ValueError if the lengths differ or a row's history is missing.
    """

    def __init__(
        self,
        params: Sequence[RowParams],
        positions: Sequence[int],
        histories: Sequence[History | None] | None = None,
        *,
        vocabulary: int,
        device: torch.device,
        operator: RowOperator | None = None,
    ) -> None:
        histories = [None] * len(params) if histories is None else histories
        _check(params, positions, histories)
        self.size = len(params)
        self.vocabulary = vocabulary
        self.device = device
        self.exact = exact_device(device)
        self.processors = Processors(
            params, positions, histories, vocabulary=vocabulary, device=device
        )
        self.logprobs = self._logprob_rows(params)
        self._seeds = self._exact([row.seed for row in params], torch.int64)
        self._positions = self._exact(list(positions), torch.int64)
        self._keys: Tensor | None = None
        self._step = 0
        self._params = params
        self._operator = operator
        self._histories = histories
        self._decays = any(row.decay is not None for row in params)
        self._sort_out()

    def _sort_out(self) -> None:
        """Assign every row to its method."""
        params = [
            row if history is None or row.decay is None else replace(row, top_p=history.top_p)
            for row, history in zip(self._params, self._histories, strict=True)
        ]
        every = range(self.size)
        self.whole = self.left = self._by_method(params, every)
        self.fused = None
        operator = self._operator
        if operator is not None:
            taken = [place for place in every if operator.takes(params[place], self.vocabulary)]
            if taken:
                self.fused = self._fused_rows(operator, params, taken)
                self.left = self._by_method(params, sorted({*every}.difference(taken)))

    def _by_method(self, params: Sequence[RowParams], places: Iterable[int]) -> SortedRows:
        groups: dict[Method, list[int]] = {method: [] for method in Method}
        for place in places:
            groups[method_of(params[place], self.vocabulary)].append(place)
        return SortedRows(
            has_greedy=bool(groups[Method.GREEDY]),
            greedy=self._rows(groups[Method.GREEDY]),
            cut=tuple(
                self._cut_rows(params, groups[method])
                for method in (Method.NARROW, Method.WIDE, Method.WHOLE)
                if groups[method]
            ),
            free=self._free_rows(params, groups[Method.FREE]),
        )

    def _fused_rows(
        self, operator: RowOperator, params: Sequence[RowParams], places: list[int]
    ) -> FusedRows:
        chosen = [params[place] for place in places]
        ks = [bounded_k(row, self.vocabulary) for row in chosen]
        heats, tops = [row.temperature for row in chosen], [row.top_p for row in chosen]
        # In one copy to the device: float32 has every k up to OFF.
        columns = self._column(
            [*heats, *tops, *(k if k < self.vocabulary else OFF for k in ks)], torch.float32
        ).view(3, -1)
        return FusedRows(
            operator=operator,
            rows=self._rows(places),
            temperature=columns[0],
            top_k=columns[2].to(torch.int32),
            top_p=columns[1],
        )

    def keys(self) -> Tensor:
        """Return this step's noise keys, int64 [B, 1] on `exact`; made for steps ahead."""
        step = self._step % _AHEAD
        if self._keys is None or step == 0:
            ahead = torch.arange(self._step - step, self._step - step + _AHEAD, device=self.exact)
            self._keys = row_keys(self._seeds, self._positions + ahead.view(-1, 1, 1))
        return self._keys[step]

    def advance(self, tokens: Sequence[int] | None = None) -> None:
        """Advance every row by its token.

        tokens: the B tokens, in order; optional if `needs_tokens` is False.
        Raises ValueError if they are missing.
        """
        self.processors.advance(tokens)
        self._step += 1
        if self._decays:
            self._sort_out()

    @property
    def needs_tokens(self) -> bool:
        """True if a row's next step depends on which tokens were drawn in this one."""
        return self.processors.needs_tokens

    def _cut_rows(self, params: Sequence[RowParams], places: list[int]) -> CutRows:
        chosen = [params[place] for place in places]
        ks = [bounded_k(row, self.vocabulary) for row in chosen]
        closed = [k < self.vocabulary for k in ks]
        floored = [not shut and row.min_p > 0 for shut, row in zip(closed, chosen, strict=True)]
        by_mass = [i for i, row in enumerate(zip(closed, floored, strict=True)) if not any(row)]
        typical = any(row.typical_p < 1 for row in chosen)
        if typical:
            count = self.vocabulary
        elif by_mass or any(floored):
            count = NARROW
        else:
            count = -(-max(ks) // _STEP) * _STEP
        top_k = self._exact(ks, torch.int64) if any(closed) else None
        inside = None
        if top_k is not None and not typical:
            ranks = torch.arange(min(count, self.vocabulary), device=self.exact)
            inside = (ranks < top_k).to(torch.float64)
        return CutRows(
            rows=self._rows(places, self.exact),
            count=count,
            unscaled=all(row.temperature == 1 for row in chosen),
            inside=inside,
            top_k=top_k,
            temperature=self._exact([row.temperature for row in chosen], torch.float64),
            top_p=self._filter([row.top_p for row in chosen], 1.0),
            min_p=self._filter([row.min_p for row in chosen], 0.0),
            typical_p=self._filter([row.typical_p for row in chosen], 1.0),
            closed=None if all(closed) else self._exact(closed, torch.bool),
            floored=self._exact(floored, torch.bool) if any(floored) else None,
            by_mass=self._column(by_mass, torch.int64, self.exact) if by_mass else None,
        )

    def _free_rows(self, params: Sequence[RowParams], places: list[int]) -> FreeRows | None:
        if not places:
            return None
        temperature = [params[place].temperature for place in places]
        return FreeRows(
            rows=self._rows(places, self.exact),
            unscaled=all(heat == 1 for heat in temperature),
            temperature=self._exact(temperature, torch.float64),
        )

    def _logprob_rows(self, params: Sequence[RowParams]) -> LogprobRows | None:
        places = [place for place, row in enumerate(params) if row.logprobs >= 0]
        if not places:
            return None
        return LogprobRows(
            places=tuple(places),
            rows=self._rows(places),
            count=max(params[place].logprobs for place in places),
        )

    def _rows(self, places: list[int], device: torch.device | None = None) -> Tensor | None:
        return None if len(places) == self.size else self._column(places, torch.int64, device)

    def _filter(self, values: list[float], off: float) -> Tensor | None:
        if all(value == off for value in values):
            return None
        return self._exact(values, torch.float64)

    def _exact(self, values: Sequence[float], dtype: torch.dtype) -> Tensor:
        """Return an upright column, [N, 1], on the device that computes in float64."""
        return self._column(values, dtype, self.exact).unsqueeze(1)

    def _column(
        self, values: Sequence[float], dtype: torch.dtype, device: torch.device | None = None
    ) -> Tensor:
        """device: `None` is the logits'."""
        place = device or self.device
        if not values:
            return torch.empty(0, dtype=dtype, device=place)
        return torch.tensor(values, dtype=dtype).to(place, non_blocking=True)


def _check(
    params: Sequence[RowParams], positions: Sequence[int], histories: Sequence[History | None]
) -> None:
    if not len(params) == len(positions) == len(histories):
        raise ValueError(
            f"{len(params)} rows, {len(positions)} positions and {len(histories)} histories: "
            "every row needs one of each"
        )
    for place, (row, history) in enumerate(zip(params, histories, strict=True)):
        if history is None and needs_history(row):
            raise ValueError(f"histories: row {place} has processors that need one")


def method_of(row: RowParams, vocabulary: int) -> Method:
    """Return the method for a row; it depends only on the row and V."""
    k = bounded_k(row, vocabulary)
    if row.temperature < GREEDY_BELOW or k == 1 or row.top_p <= 0:
        return Method.GREEDY
    if row.typical_p < 1 or WIDE < k < vocabulary:
        return Method.WHOLE
    if NARROW < k < vocabulary:
        return Method.WIDE
    if k < vocabulary or row.top_p < 1 or row.min_p > 0:
        return Method.NARROW
    return Method.FREE


def bounded_k(row: RowParams, vocabulary: int) -> int:
    """Return top_k, or V if top_k is off."""
    return row.top_k if 0 < row.top_k < vocabulary else vocabulary
