"""The engine loop: one thread owns the device and advances all answers step by step.

Other threads send it messages through one queue; it calls back once per step with all results.
"""

import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from types import MappingProxyType
from typing import TypeVar

import torch

from strowger_gateway.local_engine.embeddings.embedding_lane import EmbeddingLane
from strowger_gateway.local_engine.embeddings.input_queue import Embedded, Inputs
from strowger_gateway.local_engine.execution.jobs import Delta, Job
from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.watchdog import Pulse

_T = TypeVar("_T")
STOPPED = "the engine has stopped"


class Engine:
    """The engine's thread. `start` it, `submit` and `cancel` from any thread, `stop` it.

    deliver: called by the thread once per step with the results; it must not block.
    ended:   called by the thread when it ends, for any reason.
    pulse:   shows a watchdog the step in progress.
    embedders: each runs one batch between two steps of the others. embedded: as `deliver`.
    """

    def __init__(
        self,
        lanes: Mapping[str, ModelLane],
        deliver: Callable[[list[Delta]], None],
        ended: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        pulse: Pulse | None = None,
        embedders: Mapping[str, EmbeddingLane] = MappingProxyType({}),
        embedded: Callable[[list[Embedded]], None] = lambda _: None,
    ) -> None:
        self._lanes = dict(lanes)
        self._embedders = dict(embedders)
        self._all = (*self._lanes.values(), *self._embedders.values())
        self._embedded = embedded
        self._deliver = deliver
        self._ended = ended
        self._clock = clock
        self._pulse = pulse or Pulse()
        self._inbox: SimpleQueue[Job | Inputs | int | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._run, name="engine", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the step in progress; unfinished answers fail."""
        self._inbox.put(None)
        self._thread.join()

    def submit(self, job: Job | Inputs) -> None:
        """Queue a job. Its prompt must have passed the lane's `validate_prompt_length`."""
        self._inbox.put(job)
        # The thread sets `_closed` before its last look at the inbox, so one side sees the job.
        if self._closed:
            self._fail_late_jobs()

    def cancel(self, id: int) -> None:
        """Free the sequence before the next step; further deltas may or may not arrive."""
        self._inbox.put(id)

    def _run(self) -> None:
        """Run the loop. When it ends for any reason, all unfinished answers fail."""
        try:
            with torch.inference_mode():
                while self._drain_inbox():
                    for name, lane in self._lanes.items():
                        if lane.busy and (deltas := self._step(name, lane.step)):
                            self._deliver(deltas)
                    for name, embedder in self._embedders.items():
                        if embedder.busy and (ended := self._step(name, embedder.step)):
                            self._embedded(ended)
        finally:
            self._pulse.end()
            ids = [id for lane in self._lanes.values() for id in lane.drop_all()]
            inputs = [id for lane in self._embedders.values() for id in lane.drop_all()]
            self._closed = True
            self._deliver([_stopped(id) for id in ids])
            self._embedded([_stopped_inputs(id) for id in inputs])
            self._fail_late_jobs()
            self._ended()

    def _step(self, name: str, step: Callable[[float], list[_T]]) -> list[_T]:
        self._pulse.begin(name)
        results = step(self._clock())
        self._pulse.end()
        return results

    def _drain_inbox(self) -> bool:
        """Handle all queued messages; block if no lane is busy. Return False to stop."""
        wait = not any(lane.busy for lane in self._all)
        while True:
            try:
                message = self._inbox.get(block=wait)
            except Empty:
                return True
            wait = False
            match message:
                case None:
                    return False
                case int():
                    for lane in self._all:
                        lane.drop(message)
                case Job():
                    self._lanes[message.lane].add(message)
                case Inputs():
                    self._embedders[message.lane].add(message)

    def _fail_late_jobs(self) -> None:
        while True:
            try:
                message = self._inbox.get_nowait()
            except Empty:
                return
            match message:
                case Job():
                    self._deliver(
                        [_stopped(one.sequence.id) for one in (message, *message.siblings)]
                    )
                case Inputs():
                    self._embedded([_stopped_inputs(message.id)])
                case _:
                    continue


def _stopped(id: int) -> Delta:
    return Delta(id=id, outcome="failed", reason=STOPPED, lost=True)


def _stopped_inputs(id: int) -> Embedded:
    return Embedded(id=id, outcome="lost", reason=STOPPED)
