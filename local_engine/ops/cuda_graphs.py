"""Decoding steps as CUDA graphs, over the cache that is laid out by slot.

Where attention reads page tables, every step that only decodes is captured; else one whose
sequences are all contiguous.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import Plan, Share
from strowger_gateway.local_engine.ops.cuda import FlashCache, Offsets, in_one_piece
from strowger_gateway.local_engine.ops.page_table import PageRows


def cuda_graph(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """`Capture` by torch.cuda.graph, after a warm-up on a separate stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()

    def replay() -> Tensor:
        graph.replay()
        return out

    return replay


class FlashSteps:
    """`GraphedCache` of a flash cache."""

    def __init__(self, cache: FlashCache, *, spare: int, longest: int, device: str) -> None:
        """spare: a slot that belongs to no sequence. longest: most keys per sequence."""
        self.cache = cache
        self._spare = spare
        self._longest = longest
        self._device = device
        self._table = cache.table(torch.device(device))

    def suits(self, share: Share) -> bool:
        return self._table is not None or in_one_piece(share)

    def buffers(self, size: int) -> "_FlashBuffers":
        lengths = torch.zeros(2, size + 1, dtype=torch.int32, device=self._device)
        if self._table is not None:
            rows = PageRows(
                table=self._table.table, seats=lengths[0, :size], used=lengths[1, :size]
            )
            return _FlashBuffers(self, lengths, rows)
        offsets = Offsets(
            ends=torch.arange(size + 1, dtype=torch.int32, device=self._device),
            starts=lengths[0],
            used=lengths[1, :size],
            most_rows=1,
            most_keys=self._longest,
            gather=None,
        )
        return _FlashBuffers(self, lengths, offsets)

    def starts(self, shares: tuple[Share, ...], rest: int) -> list[int]:
        """Return where each sequence is found, and `rest` surplus rows, which read one key."""
        if self._table is not None:
            # Of any sequence: the results of surplus rows are not used.
            return self._table.seat(shares) + [0] * rest
        return [self.cache.first_slot(share) for share in shares] + [self._spare] * rest


class _FlashBuffers:
    """lengths: [2, size + 1] int32: where each sequence is found, and its number of keys; the
    numbers that `read` reads."""

    def __init__(self, steps: FlashSteps, lengths: Tensor, read: PageRows | Offsets) -> None:
        self._steps = steps
        self._lengths = lengths
        self._read = read

    def fill(self, plan: Plan, lengths: list[int]) -> None:
        rest = self._lengths.shape[1] - 1 - len(lengths)
        starts = self._steps.starts(plan.shares, rest + 1)
        used = [*lengths, *[1] * rest, 0]
        self._lengths.copy_(torch.tensor([starts, used], dtype=torch.int32))

    def pin(self, plan: Plan) -> None:
        self._steps.cache.pin(plan, self._read)
