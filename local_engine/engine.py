"""The loop: one thread owns the device and, step after step, moves every answer by what it can.

Other threads talk to it through one queue; it talks back once a step, with everything that the
step brought.
"""

import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Literal

import torch
from msgspec import Struct

from local_engine.draw import Drawer, Drawn
from local_engine.history import History
from local_engine.params import RowParams
from local_engine.runner import Runner
from local_engine.scheduler import Chunk, Scheduler
from local_engine.sequence import Finish, Sequence
from local_engine.stats import Stats

Outcome = Finish | Literal["expired", "failed"]


class Job(Struct, frozen=True, kw_only=True, eq=False):
    """One answer to generate.

    lane:  the model's name. history: `new_history` of params and prompt.
    ends:  the model's end tokens that count; stops: the client's own single tokens.
    words: token sequences that end the answer.
    """

    lane: str
    sequence: Sequence
    params: RowParams
    history: History | None = None
    ends: frozenset[int] = frozenset()
    stops: frozenset[int] = frozenset()
    words: tuple[tuple[int, ...], ...] = ()


class Delta(Struct, frozen=True, kw_only=True, eq=False):
    """What one step brought for one sequence.

    drawn:   the new token; `None` where there is only an outcome.
    outcome: `None` as long as more is to come. Nothing follows an outcome.
    match:   the token or word that ended it.
    reason:  of the outcome "failed".
    """

    id: int
    drawn: Drawn | None = None
    outcome: Outcome | None = None
    match: tuple[int, ...] = ()
    cached: int = 0
    reason: str = ""


class Lane:
    """One model's share of the loop. Everything but `stats` and `refuse` is the thread's own."""

    def __init__(self, runner: Runner, scheduler: Scheduler, drawer: Drawer) -> None:
        self._runner = runner
        self._scheduler = scheduler
        self._drawer = drawer
        self._jobs: dict[int, Job] = {}
        self._steps = self._computed = self._cached = self._generated = 0
        self.refuse = scheduler.refuse
        self.longest = scheduler.longest

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def add(self, job: Job) -> None:
        self._scheduler.add(job.sequence)
        self._jobs[job.sequence.id] = job

    def drop(self, id: int) -> None:
        """Frees a sequence at once; one that has ended already is none of our business."""
        job = self._jobs.pop(id, None)
        if job is not None:
            self._scheduler.finish(job.sequence)

    def drop_all(self) -> list[int]:
        ids = list(self._jobs)
        for id in ids:
            self.drop(id)
        return ids

    def step(self, now: float) -> list[Delta]:
        """Schedule, compute, draw, settle."""
        step = self._scheduler.schedule(now)
        deltas = [Delta(id=s.id, outcome="expired") for s in step.expired]
        for sequence in step.expired:
            del self._jobs[sequence.id]
        if not step.chunks:
            return deltas
        self._steps += 1
        try:
            rows = self._runner.forward(step.chunks)
            drawn: list[Drawn] = []
            if rows.chunks:
                batch = [self._jobs[chunk.sequence.id] for chunk in rows.chunks]
                drawn = self._drawer.draw(rows.logits, batch)
        except RuntimeError as exc:
            return deltas + self._failed(step.chunks, exc)
        for chunk in step.chunks:
            self._computed += chunk.count
            self._scheduler.advance(chunk)
        deltas += [self._settle(c.sequence, d) for c, d in zip(rows.chunks, drawn, strict=True)]
        return deltas

    def stats(self) -> Stats:
        """May be called from any thread; the numbers need not be of the same step."""
        blocks = self._scheduler.blocks
        return Stats(
            waiting=self._scheduler.waiting,
            running=self._scheduler.running,
            blocks_total=blocks.total,
            blocks_free=blocks.free,
            steps=self._steps,
            preemptions=self._scheduler.preemptions,
            computed_tokens=self._computed,
            cached_tokens=self._cached,
            generated_tokens=self._generated,
        )

    def check(self) -> None:
        """Raises CorruptBlocks unless pages and sequences agree; for tests, after a step."""
        self._scheduler.check()

    def _settle(self, sequence: Sequence, drawn: Drawn) -> Delta:
        job = self._jobs[sequence.id]
        sequence.tokens.append(drawn.token)
        self._generated += 1
        cached = max(sequence.cached, 0)
        if sequence.generated == 1:
            self._cached += cached
        outcome, match = _ended(job, drawn.token)
        if outcome is not None:
            self.drop(sequence.id)
        return Delta(id=sequence.id, drawn=drawn, outcome=outcome, match=match, cached=cached)

    def _failed(self, chunks: tuple[Chunk, ...], exc: RuntimeError) -> list[Delta]:
        """The device refused the step (memory, a kernel): its requests end, others go on."""
        deltas: list[Delta] = []
        for chunk in chunks:
            self.drop(chunk.sequence.id)
            deltas.append(Delta(id=chunk.sequence.id, outcome="failed", reason=str(exc)))
        return deltas


class Engine:
    """The thread. `start` it, `submit` and `cancel` from anywhere, `stop` it.

    deliver: called by the thread once a step with what it brought; it must not wait.
    ended:   called by the thread when it ends, whatever the reason.
    """

    def __init__(
        self,
        lanes: Mapping[str, Lane],
        deliver: Callable[[list[Delta]], None],
        ended: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lanes = dict(lanes)
        self._deliver = deliver
        self._ended = ended
        self._clock = clock
        self._inbox: SimpleQueue[Job | int | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._run, name="engine", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after the step in progress; whatever is unfinished fails."""
        self._inbox.put(None)
        self._thread.join()

    def submit(self, job: Job) -> None:
        """The prompt must have passed the lane's `refuse`."""
        self._inbox.put(job)
        if self._closed:
            self._refuse_late_orders()

    def cancel(self, id: int) -> None:
        """Frees the sequence before the next step; no further delta is promised or forbidden."""
        self._inbox.put(id)

    def _run(self) -> None:
        """Whatever ends the loop, nobody is left waiting for an answer."""
        try:
            with torch.inference_mode():
                while self._take_orders():
                    for lane in self._lanes.values():
                        if lane.busy and (deltas := lane.step(self._clock())):
                            self._deliver(deltas)
        finally:
            ids = [id for lane in self._lanes.values() for id in lane.drop_all()]
            self._closed = True
            self._deliver([_stopped(id) for id in ids])
            self._refuse_late_orders()
            self._ended()

    def _take_orders(self) -> bool:
        """Empties the inbox, waiting for it where there is nothing else to do. False: stop."""
        wait = not any(lane.busy for lane in self._lanes.values())
        while True:
            try:
                order = self._inbox.get(block=wait)
            except Empty:
                return True
            wait = False
            match order:
                case None:
                    return False
                case int():
                    for lane in self._lanes.values():
                        lane.drop(order)
                case Job():
                    self._lanes[order.lane].add(order)

    def _refuse_late_orders(self) -> None:
        while True:
            try:
                order = self._inbox.get_nowait()
            except Empty:
                return
            if isinstance(order, Job):
                self._deliver([_stopped(order.sequence.id)])


def _stopped(id: int) -> Delta:
    return Delta(id=id, outcome="failed", reason="the engine has stopped")


def _ended(job: Job, token: int) -> tuple[Outcome | None, tuple[int, ...]]:
    """Whether the answer, whose last token this is, is over, and what ended it."""
    sequence = job.sequence
    if token in job.ends:
        return "eos_token", ()
    if token in job.stops:
        return "stop_sequence", (token,)
    if job.words and sequence.generated > job.params.min_tokens:
        for word in job.words:
            if len(word) <= sequence.generated and sequence.tokens[-len(word) :] == list(word):
                return "stop_sequence", word
    if len(sequence.tokens) >= sequence.max_total:
        return "length", ()
    return None, ()
