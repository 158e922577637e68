"""The pages of running sequences on the device, kept up to date by what changes.

A sequence keeps its row of the table, so that a step uploads only new pages.
"""

from itertools import chain

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import Share

SEATS = 256
"""Rows of the table: sequences that one step can read through it."""


class PageRows(Struct, frozen=True, kw_only=True, eq=False):
    """One step's sequences, B of them.

    table: [SEATS, pages] int32. seats: [B] int32, each one's row. used: [B] int32, its number of
    keys; a row's pages beyond those are not read.
    """

    table: Tensor
    seats: Tensor
    used: Tensor


class _Seat(Struct, kw_only=True, eq=False):
    """owner: keeps the list alive, so that its id stays unique. known: pages on the device."""

    row: int
    owner: list[int]
    known: int = 0


class PageTable:
    """A seat for each sequence, told apart by `Share.owner`."""

    def __init__(self, pages: int, device: torch.device) -> None:
        """pages: of the cache, so that any sequence fits."""
        self.table = torch.zeros(SEATS, pages, dtype=torch.int32, device=device)
        self._seats: dict[int, _Seat] = {}
        self._free = list(range(SEATS))

    def seat(self, shares: tuple[Share, ...]) -> list[int]:
        """Return the rows of at most SEATS sequences, after writing their pages that are new."""
        if len(shares) > len(self._free) + sum(id(s.owner) in self._seats for s in shares):
            self._vacate({id(share.owner) for share in shares})
        width = self.table.shape[1]
        rows: list[int] = []
        grown: list[tuple[_Seat, int]] = []
        places: list[range] = []
        pages: list[tuple[int, ...]] = []
        for share in shares:
            owner = share.owner
            # Without an owner nothing is known to be the same as before.
            seat = None if owner is None else self._seats.get(id(owner))
            if seat is None:
                kept = list(share.blocks) if owner is None else owner
                seat = self._seats[id(kept)] = _Seat(row=self._free.pop(), owner=kept)
            rows.append(seat.row)
            count = len(share.blocks)
            if count > seat.known:
                places.append(range(seat.row * width + seat.known, seat.row * width + count))
                pages.append(share.blocks[seat.known :])
                grown.append((seat, count))
        if places:
            flat = [list(chain.from_iterable(one)) for one in (places, pages)]
            new = torch.tensor(flat).to(self.table.device)
            self.table.view(-1).index_copy_(0, new[0], new[1].to(torch.int32))
        # Only now: an upload that fails for lack of memory is repeated in the next step.
        for seat, count in grown:
            seat.known = count
        return rows

    def _vacate(self, needed: set[int]) -> None:
        """Free the seats of sequences that are not in this step."""
        for key in [key for key in self._seats if key not in needed]:
            self._free.append(self._seats.pop(key).row)


def page_rows(table: PageTable, shares: tuple[Share, ...]) -> PageRows:
    """Return the step's rows in buffers of their own."""
    numbers = [table.seat(shares), [share.keys for share in shares]]
    packed = torch.tensor(numbers, dtype=torch.int32).to(table.table.device)
    return PageRows(table=table.table, seats=packed[0], used=packed[1])
