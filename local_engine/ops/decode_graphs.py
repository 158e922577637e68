"""Capture decoding steps as graphs, one per batch size, and replay them over fixed buffers.

A small model's decoding step is bound by the host, which launches hundreds of kernels; a captured
graph is one launch. Steps are rounded up to a captured size, and the surplus rows compute on a
spare page. A step is captured with other lengths than its own, and then compared with the same step
uncaptured: a replay that does not take the lengths that it is given differs. A difference, and
whatever a device refuses of it, costs the graphs and no token.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import LayerCaches, Plan, Share
from strowger_gateway.local_engine.ops.device_faults import REFUSALS, first_line, meaning
from strowger_gateway.local_engine.ops.kernel_guards import undecided
from strowger_gateway.local_engine.ops.page_table import SEATS
from strowger_gateway.local_engine.ops.trial_log import trying

_log: Final = logging.getLogger("strowger.engine")

LARGEST = SEATS
ROUNDING = 5e-2
SURPLUS = 16
"""Upper bound of the rows by which a batch is rounded up; the spare page has as many slots."""


class Capture(Protocol):
    """Make a step replayable: the returned function recomputes it from the step's buffers."""

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]: ...


class Forward(Protocol):
    """ids, positions: [T] int64. Returns [T, V]."""

    def __call__(self, ids: Tensor, positions: Tensor, plan: Plan) -> Tensor: ...


class StepBuffers(Protocol):
    """Where the attention of one captured size finds its sequences."""

    def fill(self, plan: Plan, lengths: list[int]) -> None:
        """Write every number: nothing may remain from an earlier step.

        plan: of a step with at most as many sequences as the size. lengths: keys per sequence.
        """
        ...

    def pin(self, plan: Plan) -> None:
        """Let the attention read these buffers in the next call of a forward pass with `plan`."""
        ...


class GraphedCache(Protocol):
    """A cache whose attention can be captured."""

    @property
    def cache(self) -> LayerCaches: ...

    def suits(self, share: Share) -> bool:
        """Whether a sequence that decodes one token can be read in a captured step."""
        ...

    def buffers(self, size: int) -> StepBuffers: ...


def call_again(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """`Capture` for devices without graphs: the same buffers, without the gain."""
    return step


class _Bucket(Struct, frozen=True, kw_only=True, eq=False):
    """Buffers of one batch size. lanes: [3, size] int64 ids, positions and slots."""

    lanes: Tensor
    buffers: StepBuffers
    plan: Plan


class DecodeGraphs:
    """Captured steps of one model. problem: why capturing is disabled, "" if it is not."""

    def __init__(
        self,
        forward: Forward,
        source: GraphedCache,
        capture: Capture,
        *,
        spare: int,
        device: str,
    ) -> None:
        """spare: the first slot of a page that belongs to no sequence."""
        self._forward = forward
        self._source = source
        self._capture = capture
        self._spare = spare
        self._device = device
        self._surplus = torch.zeros(3, SURPLUS, dtype=torch.int64, device=device)
        self._surplus[2] = torch.arange(spare, spare + SURPLUS, device=device)
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
        if found is None:
            return self._captured(size, packed, plan)
        self._fill(found[0], packed, plan)
        try:
            # A copy: the next replay overwrites the output buffer.
            return found[1]()[:count].to(torch.float32, copy=True)
        except REFUSALS as exc:
            if meaning(exc) != "refusal":
                raise
            self._give_up(first_line(exc))
            return None

    def _suits(self, share: Share) -> bool:
        return share.count == 1 and self._source.suits(share)

    def _captured(self, size: int, packed: Tensor, plan: Plan) -> Tensor:
        """Compute the step uncaptured; capture it for later steps if both results agree."""
        expected = self._forward(packed[0], packed[1], plan)
        with trying("decoding steps", "a graph") as trial:
            trial.tried = f"{size} sequences"
            try:
                trial.gap, captured = self._compared(size, packed, plan, expected)
            except REFUSALS as exc:
                # Whatever it means: if the device is broken, the next call fails.
                trial.problem = first_line(exc)
            else:
                if trial.gap <= ROUNDING:
                    self._buckets[size] = captured
                    return expected
                trial.problem = "differs from the same step"
        self._give_up(trial.problem)
        # The capture may have written keys of wrong lengths: the step's own are written again.
        return self._forward(packed[0], packed[1], plan)

    def _compared(
        self, size: int, packed: Tensor, plan: Plan, expected: Tensor
    ) -> tuple[float, tuple[_Bucket, Callable[[], Tensor]]]:
        """Return the average difference of a captured step, relative to `expected`: a matrix with
        another number of rows may be multiplied by another kernel, so that rounding differs."""
        bucket = self._bucket(size)
        self._fill(bucket, packed, plan, [1] * len(plan.shares))

        def step() -> Tensor:
            bucket.buffers.pin(bucket.plan)
            return self._forward(bucket.lanes[0], bucket.lanes[1], bucket.plan)

        # A kernel that refuses in a capture may well compute an ordinary step.
        with undecided():
            replay = self._capture(step)
        self._fill(bucket, packed, plan)
        found, wanted = replay()[: packed.shape[1]].float(), expected.float()
        return float((found - wanted).abs().mean() / wanted.abs().mean()), (bucket, replay)

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        self._buckets.clear()
        _log.warning("decoding steps are not captured as graphs, which is slower: %s", problem)

    def _bucket(self, size: int) -> _Bucket:
        lanes = torch.zeros(3, size, dtype=torch.int64, device=self._device)
        plan = Plan(
            cache=self._source.cache,
            slots=lanes[2],
            groups=(),
            spans=(),
            shares=(),
            masks={},
            layer_params={},
        )
        return _Bucket(lanes=lanes, buffers=self._source.buffers(size), plan=plan)

    def _fill(
        self, bucket: _Bucket, packed: Tensor, plan: Plan, lengths: list[int] | None = None
    ) -> None:
        count = packed.shape[1]
        rest = bucket.lanes.shape[1] - count
        bucket.buffers.fill(plan, lengths or [share.keys for share in plan.shares])
        bucket.lanes[:, :count].copy_(packed)
        if rest:
            bucket.lanes[:, count:].copy_(self._surplus[:, :rest])


def bucket_of(count: int) -> int:
    """Round up to 1, 2, 4, 8, 16, or a multiple of 16."""
    if count > 16:
        return -(-count // 16) * 16
    return 1 << (count - 1).bit_length()
