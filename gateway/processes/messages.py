"""What the process that leads and its workers say to each other, and how it is written."""

import msgspec
from msgspec import Struct

from gateway.config.schema import Config
from gateway.coordination.breaker_messages import BreakerUpdate, LoadUpdate
from gateway.engine_process.process import EngineView, State
from gateway.telemetry.time_series import Window
from local_engine.protocol.frames import HEAD_BYTES
from schemas.secret import Secret


class EngineState(Struct, frozen=True, kw_only=True):
    """An engine as of now; its socket's path tells it from others of its name."""

    name: str
    socket_path: str
    state: State
    status: str
    restarts: int
    pid: int | None
    uptime_s: float
    ready_in: float | None


class MetricsRequest(Struct, frozen=True, kw_only=True, tag=True):
    """What has a process counted? Answered by Families."""


class SeriesRequest(Struct, frozen=True, kw_only=True, tag=True):
    """What traffic has a process seen? Answered by Strands of telemetry.series."""

    window: Window
    at: float


class RecentRequestsQuery(Struct, frozen=True, kw_only=True, tag=True):
    """What are a process's last requests? Answered by Decisions: see `Gateway.kept`."""

    limit: int
    request_id: str


class HistoryRequest(Struct, frozen=True, kw_only=True, tag=True):
    """How did experiments go? The process that leads answers, by Past of trials.history."""


Question = MetricsRequest | SeriesRequest | RecentRequestsQuery


class WorkerInit(Struct, frozen=True, kw_only=True, tag=True):
    """The first message to a worker. worker: its number, from 0. run_dir: of locks."""

    worker: int
    config: Config
    engines: tuple[EngineState, ...]
    run_dir: str


class Prepare(Struct, frozen=True, kw_only=True, tag=True):
    """See Target.prepare; answered by Prepared."""

    number: int
    config: Config
    engines: tuple[EngineState, ...]


class Commit(Struct, frozen=True, kw_only=True, tag=True):
    """See Target.commit; answered by Committed."""

    number: int


class Discard(Struct, frozen=True, kw_only=True, tag=True):
    number: int


class WaitIdle(Struct, frozen=True, kw_only=True, tag=True):
    """See Target.settle; answered by Settled."""

    id: int


class ConfigRejected(Struct, frozen=True, kw_only=True, tag=True):
    """See Target.tell."""

    rejected: bool


class EngineUpdate(Struct, frozen=True, kw_only=True, tag=True):
    engine: EngineState


class Drain(Struct, frozen=True, kw_only=True, tag=True):
    """SIGTERM."""


class StopNow(Struct, frozen=True, kw_only=True, tag=True):
    """Without waiting for anybody."""


class Ask(Struct, frozen=True, kw_only=True, tag=True):
    """Answered by Answer with the same id."""

    id: int
    question: Question


class PeerAnswers(Struct, frozen=True, kw_only=True, tag=True):
    """What the others answered to a Gather, each in msgpack."""

    id: int
    bodies: tuple[bytes, ...]


class WorkerReady(Struct, frozen=True, kw_only=True, tag=True):
    """The worker accepts connections."""


class Heartbeat(Struct, frozen=True, kw_only=True, tag=True):
    """The worker has nothing to say, and could."""


class Preparing(Struct, frozen=True, kw_only=True, tag=True):
    """The worker has heard Prepare, and may say nothing for a while: it loads libraries, too."""


class Prepared(Struct, frozen=True, kw_only=True, tag=True):
    number: int
    problems: tuple[str, ...]


class Committed(Struct, frozen=True, kw_only=True, tag=True):
    number: int


class Idle(Struct, frozen=True, kw_only=True, tag=True):
    id: int


class Answer(Struct, frozen=True, kw_only=True, tag=True):
    """id 0: unasked, to be kept in case that the worker dies; what Counted asks for."""

    id: int
    body: bytes


class AskPeers(Struct, frozen=True, kw_only=True, tag=True):
    """A worker asks what all the others would answer; answered by Gathered."""

    id: int
    question: Question | HistoryRequest


ToWorker = (
    WorkerInit
    | Prepare
    | Commit
    | Discard
    | WaitIdle
    | ConfigRejected
    | EngineUpdate
    | Drain
    | StopNow
    | Ask
    | PeerAnswers
    | BreakerUpdate
    | LoadUpdate
)
ToLeader = (
    WorkerReady
    | Heartbeat
    | Preparing
    | Prepared
    | Committed
    | Idle
    | Answer
    | AskPeers
    | BreakerUpdate
    | LoadUpdate
)


def _plain(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"{type(value)} is not sent between processes")


def _secret(kind: type, value: object) -> object:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise NotImplementedError(f"{kind} is not sent between processes")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker, dec_hook=_secret)
to_leader: msgspec.msgpack.Decoder[ToLeader] = msgspec.msgpack.Decoder(ToLeader, dec_hook=_secret)


def frame(message: ToWorker | ToLeader) -> bytes:
    """With its length before it."""
    body = _encoder.encode(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def packed(body: object) -> bytes:
    """An answer's body."""
    return _encoder.encode(body)


def state_of(engine: EngineView) -> EngineState:
    return EngineState(
        name=engine.name,
        socket_path=str(engine.socket_path),
        state=engine.state,
        status=engine.status,
        restarts=engine.restarts,
        pid=engine.pid,
        uptime_s=engine.uptime_s,
        ready_in=engine.ready_in(),
    )
