"""Messages between the leader process and its workers, and their encoding.

Each worker has one socket to the leader, on which messages keep their order (`channel.py`):

1. Start. The leader sends `WorkerInit` first: the configuration, engines, and what its parts
   begin with. The worker answers `WorkerReady` when it can serve. A gateway that takes over from
   another one accepts connections only after `Open`.
2. Life. Each second, a worker sends its counters (`Answer` with id 0), or a `Heartbeat` if nothing
   has changed. One that is silent for ten seconds is killed. A worker that has exited is replaced;
   the leader keeps its last counters.
3. Reload, in all processes or in none (`reload.py`). A worker answers `Prepare` with `Preparing`,
   for patience, and then `PrepareResult` with the problems. If no process has one, `Commit` puts
   the configuration into effect, answered by `Committed`; otherwise `Discard` drops it. `WaitIdle`
   is answered by `Idle` when no request uses an older configuration, so that its engines can stop.
4. Questions. The leader asks a worker by `Ask`, answered by `Answer`. A worker asks the others by
   `AskPeers`, answered by `PeerAnswers`: a page or a scrape reaches one worker, and shows all.
5. Parts. `PartMessage` carries what the sides of a feature send each other, either way: keys,
   certificates, replicas, leases, breakers and loads, events. `PartQuestion` is what a worker's
   side asks the leader's, answered by `PeerAnswers`. `WorkerInit` has each one's first message.
6. News of engines and problems from the leader, without an answer.
7. End. After `Drain`, a worker answers `Drained` when it has no requests left, and goes on to
   refuse new ones. When all have, and no connection waits to be accepted, `Close` lets them exit.
   After a hand-over (`Mode`), another gateway accepts, so workers exit without these two.
   `StopNow` waits for nothing. If the leader dies, the socket closes: its workers accept no more
   connections, finish their requests and exit.
"""

import os

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.assembly.part_messages import packed, revived
from strowger_gateway.gateway.backends.engines.process.process import EngineView, State
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.listening.accept_queue import Mode
from strowger_gateway.gateway.storage.sql.traffic.windows import Window
from strowger_gateway.local_engine.protocol.frames import HEAD_BYTES
from strowger_gateway.schemas.errors import InvalidConfig


class EngineState(Struct, frozen=True, kw_only=True):
    """The current state of an engine; the socket path distinguishes engines of the same name."""

    name: str
    socket_path: bytes
    state: State
    status: str
    restarts: int
    pid: int | None
    uptime_s: float
    ready_in: float | None


class MetricsRequest(Struct, frozen=True, kw_only=True, tag=True):
    """Request the counters of a process; answered with MetricFamilies."""


class SeriesRequest(Struct, frozen=True, kw_only=True, tag=True):
    """Request the time series of a process; answered with Strand of telemetry.time_series."""

    window: Window
    at: float


class RecentRequestsQuery(Struct, frozen=True, kw_only=True, tag=True):
    """Request the most recent requests of a process; answered with Decisions."""

    limit: int
    request_id: str


Question = MetricsRequest | SeriesRequest | RecentRequestsQuery


class WorkerInit(Struct, frozen=True, kw_only=True, tag=True):
    """The first message to a worker.

    worker: its number, from 0. run_dir: the folder of the lock files; bytes, as all paths in
    messages, because the names of files need not be Unicode. waits: accept no connections
    before Open. surfaces: to load before WorkerReady. parts: the first message of each part that
    has one.
    """

    worker: int
    config: Config
    engines: tuple[EngineState, ...]
    run_dir: bytes
    waits: bool = False
    surfaces: tuple[str, ...] = ()
    parts: dict[str, bytes] = {}


class PartMessage(Struct, frozen=True, kw_only=True, tag=True):
    """A message of a part, either way. body: encoded as the part's own type."""

    part: str
    body: bytes


class Prepare(Struct, frozen=True, kw_only=True, tag=True):
    """See Target.prepare; answered by PrepareResult."""

    number: int
    config: Config
    engines: tuple[EngineState, ...]


class Commit(Struct, frozen=True, kw_only=True, tag=True):
    """See Target.commit; answered by Committed."""

    number: int


class Discard(Struct, frozen=True, kw_only=True, tag=True):
    number: int


class WaitIdle(Struct, frozen=True, kw_only=True, tag=True):
    """See Target.wait_old_requests; answered by Idle."""

    id: int


class ConfigRejected(Struct, frozen=True, kw_only=True, tag=True):
    """See Target.notify_config_rejected."""

    rejected: bool


class ImportProblem(Struct, frozen=True, kw_only=True, tag=True):
    """See ImporterProcess.problem."""

    problem: str


class EngineUpdate(Struct, frozen=True, kw_only=True, tag=True):
    engine: EngineState


class Open(Struct, frozen=True, kw_only=True, tag=True):
    """Accept connections, if WorkerInit said to wait."""


class Drain(Struct, frozen=True, kw_only=True, tag=True):
    """Drain the worker. mode: who answers new connections; not `lost`."""

    mode: Mode = "refuse"


class Close(Struct, frozen=True, kw_only=True, tag=True):
    """Every worker has reported Drained, and no connection waits any more: exit."""


class StopNow(Struct, frozen=True, kw_only=True, tag=True):
    """Stop without waiting for requests in flight."""


class Ask(Struct, frozen=True, kw_only=True, tag=True):
    """Answered by Answer with the same id."""

    id: int
    question: Question


class PeerAnswers(Struct, frozen=True, kw_only=True, tag=True):
    """The answers of the other workers to AskPeers, each encoded in msgpack.

    To a PartQuestion, the one of the leader; none if the part could not answer.
    """

    id: int
    bodies: tuple[bytes, ...]


class WorkerReady(Struct, frozen=True, kw_only=True, tag=True):
    """The worker can serve: it accepts connections, unless it waits for Open."""


class Drained(Struct, frozen=True, kw_only=True, tag=True):
    """Every request has ended; the worker refuses new ones until Close."""


class Heartbeat(Struct, frozen=True, kw_only=True, tag=True):
    """The worker is alive and has nothing else to send."""


class Preparing(Struct, frozen=True, kw_only=True, tag=True):
    """The worker has received Prepare and may send nothing for a while: it also loads libraries."""


class PrepareResult(Struct, frozen=True, kw_only=True, tag=True):
    number: int
    problems: tuple[str, ...]


class Committed(Struct, frozen=True, kw_only=True, tag=True):
    number: int


class Idle(Struct, frozen=True, kw_only=True, tag=True):
    id: int


class Answer(Struct, frozen=True, kw_only=True, tag=True):
    """The answer to Ask with the same id.

    id 0: sent without a question; the counters as of MetricsRequest, kept in case the worker dies.
    """

    id: int
    body: bytes


class AskPeers(Struct, frozen=True, kw_only=True, tag=True):
    """Ask all other workers a question; answered by PeerAnswers."""

    id: int
    question: Question


class PartQuestion(Struct, frozen=True, kw_only=True, tag=True):
    """Ask the part's side in the leader; answered by PeerAnswers."""

    id: int
    part: str
    body: bytes


ToWorker = (
    WorkerInit
    | PartMessage
    | Prepare
    | Commit
    | Discard
    | WaitIdle
    | ConfigRejected
    | ImportProblem
    | EngineUpdate
    | Open
    | Drain
    | Close
    | StopNow
    | Ask
    | PeerAnswers
)
ToLeader = (
    WorkerReady
    | Drained
    | Heartbeat
    | Preparing
    | PrepareResult
    | Committed
    | Idle
    | Answer
    | AskPeers
    | PartMessage
    | PartQuestion
)


to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker, dec_hook=revived)
to_leader: msgspec.msgpack.Decoder[ToLeader] = msgspec.msgpack.Decoder(ToLeader, dec_hook=revived)


def frame(message: ToWorker | ToLeader) -> bytes:
    """Encode a message, prefixed with its length."""
    body = packed(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def check_sendable(config: Config) -> None:
    """Read a configuration as a worker would: one that it rejects would end it at each start.

    Raises InvalidConfig for texts that are not Unicode, as names of files may be.
    """
    try:
        to_worker.decode(packed(WorkerInit(worker=0, config=config, engines=(), run_dir=b"")))
    except UnicodeEncodeError as exc:
        raise InvalidConfig(
            (
                f"server.workers: is {config.server.workers}, which needs a configuration in "
                "Unicode; a name of a file, or the folder of this file, is not; rename it, or "
                "set 1",
            )
        ) from exc


def state_of(engine: EngineView) -> EngineState:
    return EngineState(
        name=engine.name,
        socket_path=os.fsencode(engine.socket_path),
        state=engine.state,
        status=engine.status,
        restarts=engine.restarts,
        pid=engine.pid,
        uptime_s=engine.uptime_s,
        ready_in=engine.ready_in(),
    )
