"""Repetition, frequency and presence penalties, only on the tokens that a row has seen.

The batch has one flat list of (row, token) pairs. A step changes only those logits; there is no
[B, V] matrix.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import TokenCounts

_SPARE = 16


class Penalties:
    """The penalised pairs of one batch; grows as rows draw tokens that are new to them.

    places: places in the batch of the rows with a penalty. params, counts: of those rows.
    """

    def __init__(
        self,
        places: Sequence[int],
        params: Sequence[RowParams],
        counts: Sequence[TokenCounts],
        *,
        vocabulary: int,
        device: torch.device,
    ) -> None:
        self._places = places
        self._params = params
        self._tokens = counts
        self._vocabulary = vocabulary
        self._device = device
        self._layout()

    def apply(self, values: Tensor) -> None:
        """Penalise `values`, float32 [B, V] contiguous, in place."""
        flat = values.view(-1)
        pairs = self._pairs[: self._used]
        repetition, frequency, presence, counts = self._columns[:, : self._used].unbind(0)
        logits = flat.index_select(0, pairs)
        logits = torch.where(logits > 0, logits / repetition, logits * repetition)
        logits.sub_(frequency * counts).sub_(presence * (counts > 0))
        flat.index_copy_(0, pairs, logits)

    def advance(self, slots: Sequence[int]) -> None:
        """Advance every row by a token; slots: its place in each row's TokenCounts, in order."""
        touched: list[int] = []
        for slot, start, size, fresh in zip(
            slots, self._starts, self._sizes, self._fresh, strict=True
        ):
            if slot == size + len(fresh):
                fresh.append(self._used)
                self._used += 1
            touched.append(start + slot if slot < size else fresh[slot - size])
        if self._used > self._pairs.numel():
            self._layout()
            return
        where = torch.tensor(touched, dtype=torch.int64).to(self._device)
        pairs, counts = self._entries([slice(slot, slot + 1) for slot in slots])
        self._pairs.index_copy_(0, where, pairs)
        self._columns.index_copy_(1, where, torch.cat((self._weights, counts.unsqueeze(0))))

    def _layout(self) -> None:
        """Store all rows' pairs one after the other, with room for new ones at the end."""
        self._sizes = [len(tokens.ids) for tokens in self._tokens]
        self._starts = list(accumulate(self._sizes[:-1], initial=0))
        self._fresh: list[list[int]] = [[] for _ in self._sizes]
        self._used = sum(self._sizes)
        weights = torch.tensor([_weights(row) for row in self._params]).t()
        self._weights = weights.to(self._device)
        spread = weights.repeat_interleave(torch.tensor(self._sizes), dim=1).to(self._device)
        pairs, counts = self._entries([slice(None)] * len(self._sizes))
        spare = _SPARE * len(self._sizes)
        columns = torch.cat((spread, counts.unsqueeze(0)))
        self._pairs = torch.cat((pairs, pairs.new_zeros(spare)))
        self._columns = torch.cat((columns, columns.new_zeros((4, spare))), dim=1)

    def _entries(self, slots: Sequence[slice]) -> tuple[Tensor, Tensor]:
        """Return int64 [N] indices into the flat logits and float32 [N] counts of some slots."""
        ids = [
            np.array(tokens.ids[chosen], dtype=np.int64)
            for tokens, chosen in zip(self._tokens, slots, strict=True)
        ]
        if max((int(some.max(initial=0)) for some in ids), default=0) >= self._vocabulary:
            raise ValueError(
                "histories: a token is not in the vocabulary; pass its size to new_history"
            )
        pairs = [
            some + place * self._vocabulary for some, place in zip(ids, self._places, strict=True)
        ]
        counts = [
            np.array(tokens.counts[chosen], dtype=np.float32)
            for tokens, chosen in zip(self._tokens, slots, strict=True)
        ]
        return (
            torch.as_tensor(np.concatenate(pairs)).to(self._device),
            torch.as_tensor(np.concatenate(counts)).to(self._device),
        )


def _weights(row: RowParams) -> tuple[float, float, float]:
    return (row.repetition_penalty, row.frequency_penalty, row.presence_penalty)
