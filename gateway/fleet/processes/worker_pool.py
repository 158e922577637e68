"""Start the worker processes, exchange messages with them, and restart those that exit."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from functools import partial
from pathlib import Path

import msgspec

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.assembly.part_failures import told
from strowger_gateway.gateway.assembly.part_messages import packed
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.fleet.listening.accept_queue import Mode, empty
from strowger_gateway.gateway.fleet.listening.listening_socket import Listener
from strowger_gateway.gateway.fleet.processes.messages import (
    Answer,
    AskPeers,
    Close,
    Committed,
    Drain,
    Drained,
    EngineUpdate,
    Heartbeat,
    Idle,
    ImportProblem,
    MetricsRequest,
    Open,
    PartMessage,
    PartQuestion,
    PeerAnswers,
    PrepareResult,
    Preparing,
    StopNow,
    ToLeader,
    ToWorker,
    WorkerReady,
    state_of,
)
from strowger_gateway.gateway.fleet.processes.worker_handle import HEARTBEATS, WorkerHandle
from strowger_gateway.gateway.fleet.processes.worker_starts import Current, WorkerStarts
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import (
    MetricFamilies,
    merge,
    snapshot,
    without_gauges,
)
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.platform.background import keep_running
from strowger_gateway.gateway.platform.code_on_disk import CodeChanged
from strowger_gateway.schemas.errors import GatewayError

_log = logging.getLogger("strowger")

BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
"""Delay before a worker restarts; doubled by each crash, reset after STEADY_S."""

STEADY_S = 60.0
END_S = 5.0
"""Time for a worker to exit once nothing is left to wait for."""

HANG_S = 10.0
"""Silence after which a serving worker counts as hung: it sends a message every second."""

_families: msgspec.msgpack.Decoder[MetricFamilies] = msgspec.msgpack.Decoder(MetricFamilies)


class WorkerPool:
    """All workers, from `start` until `ended`.

    workers: the running ones by number. starts: starts processes, and says what they begin with.
    """

    def __init__(
        self,
        listener: Listener,
        run_dir: Path,
        metrics: ProcessMetrics,
        *,
        parts: LeaderParts,
        hang_s: float = HANG_S,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        self.workers: dict[int, WorkerHandle] = {}
        self.starts = WorkerStarts(listener, run_dir, parts)
        self._outdated: CodeChanged | None = None
        self._metrics = metrics
        self._ended_counts: MetricFamilies = ()
        self._stopping = asyncio.Event()
        self._closing = False
        self._keeping: list[asyncio.Task[None]] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._hang_s = hang_s
        self._backoff_s = backoff_s
        self._watching: asyncio.Task[None] | None = None

    def start(self, workers: int, current: Current) -> None:
        """Start the workers. current: what a worker starts with."""
        self.starts.current = current
        self._keeping = [asyncio.create_task(self._keep(number)) for number in range(workers)]
        crashed = self._metrics.internal_errors.count
        watch = keep_running("worker watchdog", self._kill_hung_workers, crashed)
        self._watching = asyncio.create_task(watch)

    async def ended(self) -> None:
        """Return when every worker has exited after `drain` or `stop_now`, with the sockets closed.

        Raises CodeChanged when no worker is left, and none can be started for that reason.
        """
        await asyncio.wait(self._keeping)
        self.starts.listener.close()
        if self._outdated is not None:
            raise self._outdated

    async def serving(self) -> None:
        """Return when each worker has been able to serve once."""
        for number in range(len(self._keeping)):
            while number not in self.workers:  # noqa: ASYNC110  once, at the start
                await asyncio.sleep(0.02)
            await self.workers[number].serving.wait()

    def targets(self) -> tuple[WorkerHandle, ...]:
        return tuple(self.workers.values())

    def counted(self) -> list[MetricFamilies]:
        """Return the counters that the workers have reported last."""
        return [_families.decode(one.counted) for one in self.workers.values() if one.counted]

    def open(self) -> None:
        """Let the workers accept connections."""
        self.starts.waits = False
        self._broadcast(Open())

    def drain(self, mode: Mode = "refuse") -> None:
        """End all workers when they have answered their requests."""
        self._stopping.set()
        self._broadcast(Drain(mode=mode))

    def stop_now(self) -> None:
        self._stopping.set()
        self._broadcast(StopNow())

    def send_engine_update(self, engine: EngineView) -> None:
        """Send the engine's new status to every worker."""
        self._broadcast(EngineUpdate(engine=state_of(engine)))

    def on_import_problem(self, problem: str) -> None:
        """Send it to every worker, for /readyz. problem: "" if records are imported."""
        self.starts.import_problem = problem
        self._broadcast(ImportProblem(problem=problem))

    async def close(self) -> None:
        """Stop all workers without waiting for requests; kill those that do not exit in END_S."""
        self.stop_now()
        if self._keeping:
            _, late = await asyncio.wait(self._keeping, timeout=END_S)
            for worker in self.workers.values():
                worker.process.kill()
            if late:
                await asyncio.wait(late)
        for task in self._asking:
            task.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _broadcast(self, message: ToWorker) -> None:
        for worker in self.workers.values():
            worker.send(message)

    async def _keep(self, number: int) -> None:
        clock = asyncio.get_running_loop().time
        crashes = 0
        while not self._stopping.is_set():
            began = clock()
            how = await self._once(number)
            if self._stopping.is_set():
                return
            crashes = 1 if clock() - began > STEADY_S else crashes + 1
            pause = min(self._backoff_s * 2.0 ** (crashes - 1), MAX_BACKOFF_S)
            self._metrics.restarts.inc()
            _log.error("worker %d %s in %g s", number, how, pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()

    async def _kill_hung_workers(self) -> None:
        """Kill hung workers: until then, their requests and all that waits for them hang too."""
        while True:
            await asyncio.sleep(self._hang_s / HEARTBEATS)
            for worker in self.workers.values():
                worker.check(self._hang_s)

    async def _once(self, number: int) -> str:
        """Run one process until it exits; return how it exited and what is next, to log it."""
        try:
            status = await self._run(number)
        except CodeChanged as exc:
            if not self.workers:
                self._outdated = exc
                _log.error("stopping, because no worker is left and none can be started: %s", exc)
                self._stopping.set()
            return f"cannot be started: {exc}; trying again"
        except OSError as exc:
            return f"cannot be started ({exc}); trying again"
        except Exception as exc:  # noqa: BLE001  a bug must not cost a worker for good
            _log.exception("internal error while following a worker: %s", told(exc))
            self._metrics.internal_errors.count("worker's leader")
            return "was stopped after an internal error in the leader; restarting"
        how = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
        return f"{how}, its in-flight requests were lost; restarting"

    async def _run(self, number: int) -> int:
        """Run one process until it exits; return its exit status. Raises CodeChanged."""
        worker = await self.starts.start(number, self._joined)
        if self._stopping.is_set():
            worker.send(StopNow())
        try:
            async for message in worker.channel.messages():
                self._on_message(worker, message)
        except BaseException:
            worker.channel.close()
            worker.process.kill()
            raise
        finally:
            self.starts.parts.left(number)
            del self.workers[number]
            worker.on_exit()
            self._close_if_drained()
        if worker.counted is not None:
            last = without_gauges(_families.decode(worker.counted))
            self._ended_counts = merge((self._ended_counts, last))
        self._count_serving()
        return await worker.process.wait()

    def _joined(self, worker: WorkerHandle) -> None:
        self.workers[worker.number] = worker
        self.starts.parts.joined(worker.number, partial(_send_part, worker))

    def _on_message(self, worker: WorkerHandle, message: ToLeader) -> None:
        worker.missed_heartbeats = 0
        match message:
            case Heartbeat():
                pass
            case Preparing():
                worker.extend()
            case PrepareResult() | Committed() | Idle() | Answer():
                worker.on_message(message)
            case PartMessage():
                self.starts.parts.receive(worker.number, message.part, message.body)
            case PartQuestion():
                self._begin(self._answer_part(worker, message))
            case AskPeers():
                self._begin(self._ask_peers(worker, message))
            case WorkerReady():
                worker.serving.set()
                self._count_serving()
            case Drained():
                worker.drained = True
                self._close_if_drained()

    def _close_if_drained(self) -> None:
        """When the last worker has answered its last request, empty the queues, and end all."""
        drained = [one.drained for one in self.workers.values()]
        if drained and all(drained) and not self._closing:
            self._closing = True
            self._begin(empty(self.starts.listener.sockets, partial(self._broadcast, Close())))

    def _count_serving(self) -> None:
        self._metrics.workers.set(sum(one.serving.is_set() for one in self.workers.values()))

    def _begin(self, asking: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(asking)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer_part(self, asking: WorkerHandle, question: PartQuestion) -> None:
        try:
            bodies = (await self.starts.parts.answer_packed(question.part, question.body),)
        except GatewayError:
            bodies = ()
        asking.send(PeerAnswers(id=question.id, bodies=bodies))

    async def _ask_peers(self, asking: WorkerHandle, message: AskPeers) -> None:
        """Ask all other workers concurrently; add the counters of workers that have exited."""
        question = message.question
        others = [one for one in self.workers.values() if one is not asking]
        answers = await asyncio.gather(*(one.ask(question) for one in others))
        bodies = [answer for answer in answers if answer is not None]
        if isinstance(question, MetricsRequest):
            for worker, answer in zip(others, answers, strict=True):
                worker.counted = answer or worker.counted
            running = [one for one in others if self.workers.get(one.number) is one]
            bodies = [one.counted for one in running if one.counted is not None]
            bodies += [packed(self._ended_counts), packed(snapshot(self._metrics.registry))]
        asking.send(PeerAnswers(id=message.id, bodies=tuple(bodies)))


def _send_part(worker: WorkerHandle, part: str, message: object) -> None:
    worker.send(PartMessage(part=part, body=packed(message)))
