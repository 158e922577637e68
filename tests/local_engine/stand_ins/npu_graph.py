"""Graphs of the stand-in's device, by the rules of torch.npu.NPUGraph and of its task updates.

A capture records launches and computes nothing: what it wrote is undone when it ends. A replay
computes each launch again, from the addresses and numbers of the capture. It stops at an event that
is not recorded yet, and goes on when it is; whatever else the device is given before that hangs.
A task group's launch gets new arguments by an update on another stream.
Source: torch_npu/npu/graphs.py and streams.py in the wheel, whose library has the messages.
"""

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import torch
from msgspec import Struct
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

Run = Callable[[], object]
Inputs = Sequence[tuple[Tensor, Tensor]]
"""Tensors of the NPU, each with its memory as a tensor of the host."""


class Stream:
    def synchronize(self) -> None:
        if state.pending is not None:
            raise RuntimeError("the device hangs: a graph waits for an event that is not recorded")


class Launch(Struct, kw_only=True, eq=False):
    """One kernel. targets: where its results are, if it makes new ones. inputs: what no launch of
    this graph made, so that its owner must keep it."""

    name: str
    run: Run
    targets: list[Tensor]
    inputs: list[StorageWeakRef]


class ExternalEvent:
    """recorded: until the event is reset."""

    def __init__(self) -> None:
        self.recorded = False

    def wait(self, stream: Stream) -> None:
        _capturing(stream).nodes.append((self, True))

    def reset(self, stream: Stream) -> None:
        _capturing(stream).nodes.append((self, False))

    def record(self, stream: Stream) -> None:
        _refuse_if(state.capture is not None, "record: in a capture, on a stream outside of it")
        self.recorded = True
        if state.pending is not None:
            state.pending.advance()


class NPUGraph:
    """nodes: launches, and waits for (true) and resets of events."""

    def __init__(self) -> None:
        self.nodes: list[Launch | tuple[ExternalEvent, bool]] = []
        self.replays = 0
        self._made: set[int] = set()
        self._before: dict[int, tuple[Tensor, Tensor]] = {}
        self._next = 0

    def add(self, name: str, run: Run, inputs: Inputs, *, mutates: bool) -> Launch:
        """Record a launch before it is computed once, for the shapes of its results."""
        for _, host in inputs if mutates else ():
            self._before.setdefault(_storage(host), (host, _whole(host).clone()))
        outside = [npu for npu, host in inputs if _storage(host) not in self._made]
        launch = Launch(name=name, run=run, targets=[], inputs=_weak(outside))
        self.nodes.append(launch)
        return launch

    def made(self, launch: Launch, targets: list[Tensor]) -> None:
        launch.targets = targets
        self._made.update(map(_storage, targets))

    def end(self) -> None:
        """Undo what was written: a capture computes nothing."""
        for host, before in self._before.values():
            _whole(host).copy_(before)
        for node in self.nodes:
            for target in node.targets if isinstance(node, Launch) else ():
                if _storage(target) not in self._before:
                    target.fill_(torch.nan if target.is_floating_point() else 0)

    def replay(self) -> None:
        _refuse_if(
            not self.nodes, "Called NPUGraph::replay without a preceding successful capture."
        )
        _refuse_if(state.pending is not None, "the last replay has not ended")
        for node in self.nodes:
            for one in node.inputs if isinstance(node, Launch) else ():
                freed = bool(one.expired())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # torch
                _refuse_if(freed, "a captured launch reads memory that was freed since")
        self.replays += 1
        self._next = 0
        state.pending = self
        self.advance()

    def advance(self) -> None:
        while self._next < len(self.nodes):
            node = self.nodes[self._next]
            if isinstance(node, Launch):
                _again(node)
            elif not node[1]:
                node[0].recorded = False
            elif not node[0].recorded:
                return
            self._next += 1
        state.pending = None


class TaskGroup(Struct, kw_only=True, eq=False):
    """The launches of a graph that one update replaces."""

    graph: NPUGraph
    launches: list[Launch]


class _State:
    """What the device does now. level: of the task queue."""

    def __init__(self) -> None:
        self.capture: NPUGraph | None = None
        self.pending: NPUGraph | None = None
        self.group: int | None = None
        self.update: tuple[TaskGroup, list[Launch]] | None = None
        self.streams = [Stream()]
        self.level = int(os.environ.get("TASK_QUEUE_ENABLE", "1"))
        self.graphs: list[NPUGraph] = []


state = _State()


def launch(
    name: str, run: Run, inputs: Inputs, *, mutates: bool
) -> tuple[object, Callable[[Iterable[Tensor]], None]]:
    """Compute or record a kernel. mutates: whether it writes into its inputs.

    Returns its results, and a function that is called with the memory that holds them.
    """
    if state.update is not None:
        update = Launch(name=name, run=run, targets=[], inputs=_weak(npu for npu, _ in inputs))
        state.update[1].append(update)
        return None, lambda _: None
    if state.capture is None:
        state.streams[-1].synchronize()
        return run(), lambda _: None
    graph = state.capture
    recorded = graph.add(name, run, inputs, mutates=mutates)
    return run(), lambda targets: graph.made(recorded, list(targets))


def refuse_in_capture(what: str) -> None:
    """Raise RuntimeError if the host and the device would have to wait for each other."""
    _refuse_if(
        state.capture is not None,
        f"{what}: error code is 107030: the current capture mode does not support this operation",
    )


class Graphs:
    """The part of torch.npu that is about graphs, streams and the task queue."""

    NPUGraph = NPUGraph
    ExternalEvent = ExternalEvent
    Stream = Stream

    def graph_pool_handle(self) -> tuple[int, int]:
        return (0, 1)

    def current_stream(self, device: object = None) -> Stream:
        return state.streams[-1]

    @contextmanager
    def stream(self, stream: Stream) -> Generator[None]:
        state.streams.append(stream)
        try:
            yield
        finally:
            state.streams.pop()

    @contextmanager
    def graph(
        self, graph: NPUGraph, *, pool: object = None, capture_error_mode: str = "global"
    ) -> Generator[None]:
        _refuse_if(
            state.level == 2,
            "Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture, please export "
            "TASK_QUEUE_ENABLE=1/0.",
        )
        _refuse_if(capture_error_mode not in ("global", "thread_local", "relaxed"), "mode")
        state.streams[-1].synchronize()
        state.graphs.append(graph)
        with self.stream(Stream()):
            state.capture = graph
            try:
                yield
            finally:
                state.capture, state.group = None, None
                graph.end()

    def graph_task_group_begin(self, stream: Stream) -> None:
        _refuse_if(state.group is not None, "a task group has begun already")
        state.group = len(_capturing(stream).nodes)

    def graph_task_group_end(self, stream: Stream) -> TaskGroup:
        graph = _capturing(stream)
        assert state.group is not None
        found = [node for node in graph.nodes[state.group :] if isinstance(node, Launch)]
        _refuse_if(not found, "a task group without a task")
        state.group = None
        return TaskGroup(graph=graph, launches=found)

    def graph_task_update_begin(self, stream: Stream, handle: TaskGroup) -> None:
        _refuse_if(state.streams[-1] is not stream, "an update is on its own stream")
        _refuse_if(stream is state.streams[0], "the update's stream would wait for the graph")
        _refuse_if(state.capture is not None, "no update in a capture")
        state.update = (handle, [])

    def graph_task_update_end(self, stream: Stream) -> None:
        assert state.update is not None
        (group, given), state.update = state.update, None
        names = [one.name for one in given]
        if given:
            _refuse_if(names != [one.name for one in group.launches], "an update with other tasks")
            for old, new in zip(group.launches, given, strict=True):
                old.run = new.run

    def get_task_queue_enable(self) -> int:
        return state.level

    def set_task_queue_enable(self, mode: int) -> None:
        _refuse_if(mode not in (0, 1, 2), "mode must be 0, 1, or 2")
        state.level = mode


def _again(launch: Launch) -> None:
    results = [one for one in tree_leaves(launch.run()) if isinstance(one, Tensor)]
    for target, result in zip(launch.targets, results, strict=True):
        if _storage(target) != _storage(result):
            target.copy_(result)


def _capturing(stream: Stream) -> NPUGraph:
    _refuse_if(state.capture is None, "the stream is not capturing")
    _refuse_if(state.streams[-1] is not stream, "another stream than the one that captures")
    assert state.capture is not None
    return state.capture


def _refuse_if(wrong: bool, why: str) -> None:
    if wrong:
        raise RuntimeError(why)


def _storage(host: Tensor) -> int:
    return host.untyped_storage().data_ptr()


def _whole(host: Tensor) -> Tensor:
    """Return all bytes of the memory that a tensor is in."""
    return torch.empty(0, dtype=torch.uint8).set_(host.untyped_storage())


def _weak(tensors: Iterable[Tensor]) -> list[StorageWeakRef]:
    return [StorageWeakRef(one.untyped_storage()) for one in tensors]
