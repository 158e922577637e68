"""Change a batch's logits before temperature and filters, each row by its own request.

Order: logit bias, penalties, bans, the tokens that a grammar allows. Bans (min_tokens, bad words,
n-grams) set the lowest finite number, and a grammar sets -inf at the end, so if everything that
the grammar allows is banned, the grammar wins.
"""

from collections.abc import Sequence

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.sampling.penalties import Penalties
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import History

BANNED = torch.finfo(torch.float32).min


class Allowed(Struct, frozen=True, kw_only=True):
    """The tokens that guided decoding permits.

    mask: bool [G, V], True is permitted. rows: int64 [G] places in the batch; `None` is all.
    """

    mask: Tensor
    rows: Tensor | None = None


class Processors:
    """One batch's processors.

    params, positions, histories: one for each row of the batch, as `SamplingRows` gets them.
    """

    def __init__(
        self,
        params: Sequence[RowParams],
        positions: Sequence[int],
        histories: Sequence[History | None],
        *,
        vocabulary: int,
        device: torch.device,
    ) -> None:
        self._params = params
        self._positions = positions
        self._histories = histories
        self._vocabulary = vocabulary
        self._device = device
        self._step = 0
        self._bias = self._sparse_bias()
        self._dense = self._dense_bias()
        self._counted = [
            place for place, history in enumerate(histories) if history and history.counts
        ]
        self._penalties = self._penalised()
        self._lasting = self._lasting_bans()
        self._passing = self._passing_bans()
        self.needs_tokens = any(history is not None for history in histories)
        self.active = self.needs_tokens or any(
            part is not None for part in (self._bias, self._dense, self._lasting)
        )

    def apply(self, values: Tensor) -> None:
        """Change `values`, float32 [B, V] contiguous, in place."""
        flat = values.view(-1)
        if self._dense is not None:
            values.index_add_(0, *self._dense)
        if self._bias is not None:
            flat.index_add_(0, *self._bias)
        if self._penalties is not None:
            self._penalties.apply(values)
        for bans in (self._lasting, self._passing):
            if bans is not None:
                flat.index_fill_(0, bans, BANNED)

    def advance(self, tokens: Sequence[int] | None) -> None:
        """Advance every row by its token; tokens: one per row.

        Raises ValueError if tokens are missing that a row's processors need.
        """
        if self.needs_tokens:
            if tokens is None or len(tokens) != len(self._histories):
                raise ValueError(
                    f"tokens: a row's processors need all {len(self._histories)} drawn tokens"
                )
            slots = [
                -1 if history is None else history.append(token)
                for history, token in zip(self._histories, tokens, strict=True)
            ]
            if self._penalties is not None:
                self._penalties.advance([slots[place] for place in self._counted])
            self._passing = self._passing_bans()
        self._step += 1
        if self._step >= self._next_change:
            self._lasting = self._lasting_bans()

    def _sparse_bias(self) -> tuple[Tensor, Tensor] | None:
        pairs = [
            (place * self._vocabulary + token, value)
            for place, row in enumerate(self._params)
            for token, value in row.logit_bias
        ]
        if not pairs:
            return None
        where, values = zip(*pairs, strict=True)
        return self._indices(where), torch.tensor(values, dtype=torch.float32).to(self._device)

    def _dense_bias(self) -> tuple[Tensor, Tensor] | None:
        found = [
            (place, row.embedding_bias)
            for place, row in enumerate(self._params)
            if row.embedding_bias is not None
        ]
        if not found:
            return None
        places, biases = zip(*found, strict=True)
        return self._indices(places), torch.stack(biases).to(self._device)

    def _penalised(self) -> Penalties | None:
        if not self._counted:
            return None
        counts = [
            history.counts for history in self._histories if history and history.counts is not None
        ]
        return Penalties(
            self._counted,
            [self._params[place] for place in self._counted],
            counts,
            vocabulary=self._vocabulary,
            device=self._device,
        )

    def _lasting_bans(self) -> Tensor | None:
        """Return single-token bad words, and the end tokens of rows below min_tokens."""
        where: list[int] = []
        changes: list[int] = []
        for place, (row, position) in enumerate(zip(self._params, self._positions, strict=True)):
            base = place * self._vocabulary
            where.extend(base + word[0] for word in row.bad_words if len(word) == 1)
            left = row.min_tokens - position
            if left > self._step and row.end_ids:
                where.extend(base + token for token in row.end_ids)
                changes.append(left)
        self._next_change = min(changes, default=1 << 62)
        return self._indices(where) if where else None

    def _passing_bans(self) -> Tensor | None:
        """Return the tokens that bad words and n-grams forbid for the next token only."""
        where = [
            place * self._vocabulary + token
            for place, history in enumerate(self._histories)
            if history is not None
            for token in history.banned()
        ]
        return self._indices(where) if where else None

    def _indices(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64).to(self._device)


def mask_out(values: Tensor, allowed: Allowed) -> None:
    """Set tokens that are not allowed to -inf; `values` is float32 [B, V], changed in place."""
    if allowed.rows is None:
        values.masked_fill_(~allowed.mask, -torch.inf)
        return
    chosen = values.index_select(0, allowed.rows).masked_fill_(~allowed.mask, -torch.inf)
    values.index_copy_(0, allowed.rows, chosen)


def unpack_mask(bits: Tensor, vocabulary: int) -> Tensor:
    """Convert a grammar's bit mask to bools.

    bits: int32 [G, ceil(V / 32)], token t is bit t % 32 of word t // 32. Returns bool [G, V].
    """
    octets = bits.contiguous().view(torch.uint8).to(torch.int64)
    places = torch.arange(8, device=bits.device)
    table = ((torch.arange(256, device=bits.device).unsqueeze(1) >> places) & 1).to(torch.bool)
    spread = table.index_select(0, octets.view(-1)).view(bits.size(0), -1)
    return spread[:, :vocabulary]
