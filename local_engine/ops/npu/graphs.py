"""Decoding steps as graphs of an NPU, whose attention gets new lengths before each replay.

The lengths of the fused attention are numbers of the host, which a captured call keeps. So each
call is a task group: before its kernel the graph waits for an event, and a second stream issues the
call again with the step's lengths and then records the event.
https://github.com/Ascend/pytorch: torch_npu.npu.graph_task_update_begin and ExternalEvent; the same
order of calls is in https://github.com/vllm-project/vllm-ascend, attention/attention_v1.py.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import Plan, Share
from strowger_gateway.local_engine.ops.device_faults import REFUSALS
from strowger_gateway.local_engine.ops.npu.paged_cache import (
    PAGE,
    PagedCache,
    Pinned,
    Tables,
    tables_of,
)

QUEUE = 1
"""torch-npu captures no graph while its task queue has level 2."""


class NPUStream(Protocol):
    def synchronize(self) -> None: ...


class NPUEvent(Protocol):
    """May be waited for before it is recorded, and must be reset before it is recorded again."""

    def wait(self, stream: NPUStream) -> None: ...

    def reset(self, stream: NPUStream) -> None: ...

    def record(self, stream: NPUStream) -> None: ...


class Graph(Protocol):
    def replay(self) -> None: ...


class GraphNPU(Protocol):
    """The used parts of torch.npu; not every version has all of them."""

    NPUGraph: Callable[[], Graph]
    ExternalEvent: Callable[[], NPUEvent]
    Stream: Callable[[], NPUStream]

    def graph(
        self, graph: Graph, *, pool: object, capture_error_mode: str
    ) -> AbstractContextManager[object]: ...

    def graph_pool_handle(self) -> object: ...

    def current_stream(self) -> NPUStream: ...

    def stream(self, stream: NPUStream) -> AbstractContextManager[object]: ...

    def graph_task_group_begin(self, stream: NPUStream) -> None: ...

    def graph_task_group_end(self, stream: NPUStream) -> object: ...

    def graph_task_update_begin(self, stream: NPUStream, handle: object) -> None: ...

    def graph_task_update_end(self, stream: NPUStream) -> None: ...

    def get_task_queue_enable(self) -> int: ...

    def set_task_queue_enable(self, mode: int) -> None: ...


class FusedAttention(Protocol):
    """A fused attention of torch_npu: a call that allocates its results, and one that does not."""

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, /, **arguments: object
    ) -> tuple[Tensor, Tensor]: ...

    @property
    def out(self) -> Callable[..., object]: ...


class Task(Struct, frozen=True, kw_only=True, eq=False):
    """One captured attention. keys: the sequences' numbers of keys, which each step changes.

    call: the operator's `out`, with all arguments but the one called `lengths`.
    """

    call: Callable[..., object]
    lengths: str
    keys: list[int]
    handle: object
    event: NPUEvent


class AttentionTasks:
    """The attention calls of the step that is being captured. recording: whether one is."""

    def __init__(self, npu: GraphNPU) -> None:
        self._npu = npu
        self._tasks: list[Task] = []
        self._results: dict[tuple[object, ...], list[Tensor]] = {}
        self._workspace: Tensor | None = None
        self.recording = False

    def begin(self) -> None:
        self._tasks, self._results = [], {}
        self.recording = True

    def end(self) -> Sequence[Task]:
        """Return the tasks of the captured step, in their order."""
        self.recording = False
        self._results = {}
        return self._tasks

    def call(
        self,
        operator: FusedAttention,
        workspace: Callable[..., Tensor],
        tensors: tuple[Tensor, Tensor, Tensor],
        lengths: str,
        keys: list[int],
        arguments: dict[str, object],
    ) -> Tensor:
        """Capture one call. tensors: query, keys, values. Returns its output.

        workspace: returns the scratch memory that the call needs for any lengths.
        """
        npu, query = self._npu, tensors[0]
        now = {**arguments, lengths: list(keys)}
        room = workspace(*tensors, **now)
        # Layers run one after the other, also those of other graphs: they can share all of this.
        if self._workspace is None or _bytes(room) > _bytes(self._workspace):
            self._workspace = room
        place = (query.shape, query.dtype)
        if place not in self._results:
            self._results[place] = [torch.empty_like(query), query.new_empty(1)]
        out, room = self._results[place], self._workspace

        def call(**lengths: object) -> object:
            return operator.out(*tensors, **{**arguments, **lengths}, workspace=room, out=out)

        stream, event = npu.current_stream(), npu.ExternalEvent()
        event.wait(stream)
        event.reset(stream)
        npu.graph_task_group_begin(stream)
        call(**{lengths: list(keys)})
        handle = npu.graph_task_group_end(stream)
        self._tasks.append(Task(call=call, lengths=lengths, keys=keys, handle=handle, event=event))
        return out[0]


class NPUCapture:
    """`Capture` by torch.npu.NPUGraph. All graphs share their memory: one runs at a time."""

    def __init__(self, npu: GraphNPU, tasks: AttentionTasks) -> None:
        """tasks: what the attention's kernels record in."""
        self._npu = npu
        self._tasks = tasks
        self._pool: object = None
        self._side: NPUStream | None = None

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """The step runs once uncaptured, because some kernels allocate when they first run."""
        npu = self._npu
        step()
        if self._side is None:
            self._pool, self._side = npu.graph_pool_handle(), npu.Stream()
        level = npu.get_task_queue_enable()
        if level > QUEUE:
            npu.set_task_queue_enable(QUEUE)
        try:
            graph, out, tasks = self._captured(step)
        except REFUSALS:
            npu.set_task_queue_enable(level)
            raise
        side = self._side

        def replay() -> Tensor:
            # An event that is recorded before the last replay has reset it would be lost.
            npu.current_stream().synchronize()
            graph.replay()
            self._update(tasks, side)
            return out

        return replay

    def _captured(self, step: Callable[[], Tensor]) -> tuple[Graph, Tensor, Sequence[Task]]:
        graph = self._npu.NPUGraph()
        self._tasks.begin()
        try:
            # Other threads may go on: none of them computes on the device.
            with self._npu.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                out = step()
        finally:
            tasks = self._tasks.end()
        return graph, out, tasks

    def _update(self, tasks: Sequence[Task], side: NPUStream) -> None:
        """Give each attention its lengths, while the graph runs up to it."""
        npu, done = self._npu, 0
        with npu.stream(side):
            try:
                for task in tasks:
                    npu.graph_task_update_begin(side, task.handle)
                    try:
                        task.call(**{task.lengths: list(task.keys)})
                    finally:
                        npu.graph_task_update_end(side)
                    task.event.record(side)
                    done += 1
            except REFUSALS:
                # The graph has begun and must end; its result is not read.
                for task in tasks[done:]:
                    task.event.record(side)
                raise


class PagedSteps:
    """`GraphedCache` of a paged cache."""

    def __init__(self, cache: PagedCache, *, spare: int, longest: int, device: str) -> None:
        """spare: first slot of a page that belongs to no sequence. longest: most keys of one."""
        self.cache = cache
        self.spare = spare // PAGE
        self._longest = longest
        self._device = device

    def suits(self, share: Share) -> bool:
        return share.keys <= self._longest

    def buffers(self, size: int) -> "_PagedBuffers":
        width = -(-self._longest // PAGE)
        pages = torch.full((size, width), self.spare, dtype=torch.int32, device=self._device)
        return _PagedBuffers(self, pages)


class _PagedBuffers:
    """pages: [size, width] int32, the page table of the sequences."""

    def __init__(self, steps: PagedSteps, pages: Tensor) -> None:
        self._steps = steps
        self._pages = pages
        self._ends = list(range(1, len(pages) + 1))
        self._keys = [1] * len(pages)
        self._queries: dict[tuple[int, int], Tensor] = {}

    def fill(self, plan: Plan, lengths: list[int]) -> None:
        """The surplus rows read one key of the spare page. What an earlier step left behind a
        sequence's last page is not read."""
        count, rows = len(lengths), tables_of(plan).pages
        self._pages[:count, : rows.shape[1]].copy_(rows)
        if count < len(self._pages):
            self._pages[count:, :1].fill_(self._steps.spare)
        self._keys[:] = [*lengths, *[1] * (len(self._pages) - count)]

    def pin(self, plan: Plan) -> None:
        tables = Tables(
            pages=self._pages,
            slots=plan.slots.to(torch.int32),
            ends=self._ends,
            keys=self._keys,
        )
        self._steps.cache.pin(Pinned(plan=plan, tables=tables, queries=self._queries))


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
