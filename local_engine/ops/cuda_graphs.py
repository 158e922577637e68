"""Capture decoding steps as CUDA graphs, one per batch size, and replay them over fixed buffers.

A small model's decoding step on a GPU is bound by kernel launches; a captured graph is one launch.
Steps are rounded up to a captured size, and the surplus rows compute on a spare page. Where
attention reads page tables, every step that only decodes is captured; else one whose sequences are
all contiguous. The first step of each size is compared with the same step uncaptured; a difference
disables capturing.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor

from local_engine.ops.attention import Plan, Share
from local_engine.ops.cuda import FlashCache, Offsets, in_one_piece
from local_engine.ops.device_faults import REFUSALS
from local_engine.ops.page_table import SEATS, PageRows

LARGEST = SEATS
ROUNDING = 5e-2


class Capture(Protocol):
    """Make a step replayable: the returned function recomputes it from the step's buffers."""

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]: ...


class Forward(Protocol):
    """ids, positions: [T] int64. Returns [T, V]."""

    def __call__(self, ids: Tensor, positions: Tensor, plan: Plan) -> Tensor: ...


def call_again(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """`Capture` for devices without graphs: the same buffers, without the gain."""
    return step


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


class _Bucket(Struct, frozen=True, kw_only=True, eq=False):
    """Buffers of one batch size. lanes: [3, size] int64 ids, positions and slots.

    lengths: [2, size + 1] int32: where each sequence is found, and its number of keys; the numbers
             that `read` reads.
    """

    lanes: Tensor
    lengths: Tensor
    read: PageRows | Offsets
    plan: Plan


class DecodeGraphs:
    """Captured steps of one model. problem: why capturing is disabled, "" if it is not."""

    def __init__(
        self,
        forward: Forward,
        cache: FlashCache,
        capture: Capture,
        *,
        spare: int,
        longest: int,
        device: str,
    ) -> None:
        """spare: a slot that belongs to no sequence. longest: most keys per sequence."""
        self._forward = forward
        self._cache = cache
        self._capture = capture
        self._spare = spare
        self._longest = longest
        self._device = device
        self._table = cache.table(torch.device(device))
        self._buckets: dict[int, tuple[_Bucket, Callable[[], Tensor]]] = {}
        self.problem = ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Batch sizes captured so far."""
        return tuple(sorted(self._buckets))

    def logits(self, packed: Tensor, plan: Plan) -> Tensor | None:
        """packed: [3, T] int64 ids, positions and slots of `plan`. Returns [T, V], or `None` for a
        step that is not plain decoding or has more than LARGEST sequences."""
        count = packed.shape[1]
        if self.problem or count > LARGEST or not all(map(self._suits, plan.shares)):
            return None
        size = bucket_of(count)
        found = self._buckets.get(size)
        if found is not None:
            self._fill(found[0], packed, plan.shares)
            # A copy: the next replay overwrites the output buffer.
            return found[1]()[:count].to(torch.float32, copy=True)
        return self._captured(size, packed, plan)

    def _suits(self, share: Share) -> bool:
        return share.count == 1 and (self._table is not None or in_one_piece(share))

    def _captured(self, size: int, packed: Tensor, plan: Plan) -> Tensor:
        """Compute the step uncaptured; capture it for later steps if both results agree."""
        expected = self._forward(packed[0], packed[1], plan)
        bucket = self._bucket(size)
        self._fill(bucket, packed, plan.shares)

        def step() -> Tensor:
            self._cache.pin(bucket.plan, bucket.read)
            return self._forward(bucket.lanes[0], bucket.lanes[1], bucket.plan)

        try:
            replay = self._capture(step)
            self.problem = _difference(replay()[: packed.shape[1]], expected)
        except REFUSALS as exc:
            self.problem = f"{type(exc).__name__}: {exc}"
        else:
            if not self.problem:
                self._buckets[size] = (bucket, replay)
        return expected

    def _bucket(self, size: int) -> _Bucket:
        lanes = torch.zeros(3, size, dtype=torch.int64, device=self._device)
        lengths = torch.zeros(2, size + 1, dtype=torch.int32, device=self._device)
        read: PageRows | Offsets
        if self._table is not None:
            read = PageRows(
                table=self._table.table, seats=lengths[0, :size], used=lengths[1, :size]
            )
        else:
            read = Offsets(
                ends=torch.arange(size + 1, dtype=torch.int32, device=self._device),
                starts=lengths[0],
                used=lengths[1, :size],
                most_rows=1,
                most_keys=self._longest,
                gather=None,
            )
        plan = Plan(
            cache=self._cache,
            slots=lanes[2],
            groups=(),
            spans=(),
            shares=(),
            masks={},
            layer_params={},
        )
        return _Bucket(lanes=lanes, lengths=lengths, read=read, plan=plan)

    def _fill(self, bucket: _Bucket, packed: Tensor, shares: tuple[Share, ...]) -> None:
        """Write every number of every buffer: nothing may remain from an earlier step."""
        count = packed.shape[1]
        rest = bucket.lanes.shape[1] - count
        if self._table is not None:
            # The surplus rows read one key of any sequence; their results are not used.
            starts = self._table.seat(shares) + [0] * (rest + 1)
        else:
            starts = [self._cache.first_slot(share) for share in shares]
            starts += [self._spare] * (rest + 1)
        used = [share.keys for share in shares] + [1] * rest + [0]
        bucket.lengths.copy_(torch.tensor([starts, used], dtype=torch.int32))
        bucket.lanes[:, :count].copy_(packed)
        if rest:
            bucket.lanes[:2, count:] = 0
            bucket.lanes[2, count:] = self._spare


def bucket_of(count: int) -> int:
    """Round up to 1, 2, 4, 8, 16, or a multiple of 16."""
    if count > 16:
        return -(-count // 16) * 16
    return 1 << (count - 1).bit_length()


def _difference(one: Tensor, other: Tensor) -> str:
    """Compare by the average difference: a matrix with another number of rows may be multiplied by
    another kernel, so that rounding differs."""
    gap = (one.float() - other.float()).abs().mean()
    return (
        "" if bool(gap <= ROUNDING * other.float().abs().mean()) else "differs from the same step"
    )
