"""The side of a part in each process that serves requests."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct
from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import Finds, LeaderSide, Work
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.storage.sql.rows import Recorder
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess

ToLeaderT = TypeVar("ToLeaderT")
ToWorkerT = TypeVar("ToWorkerT")
AnswerT = TypeVar("AnswerT")


class Asks(Protocol):
    """Asks the part's side in the leader, and returns its answer, of the type given.

    Raises Unavailable if the leader does not answer.
    """

    def __call__(self, question: object, kind: type[AnswerT], /) -> Awaitable[AnswerT]: ...


class First(Protocol):
    """Returns the message of `LeaderSide.first`, of the type given; `None` if it sent nothing."""

    def __call__(self, kind: type[AnswerT], /) -> AnswerT | None: ...


class ProcessContext(Struct, frozen=True, kw_only=True, eq=False):
    """What the sides in a serving process get.

    worker:   the number of this process, from 0; 0 if it is the only one.
    alone:    the gateway has one process. leader: then, the part's side in it; `None` if that
              runs in another process, or nowhere, as in tests.
    config:   returns the configuration in effect.
    registry: of the process's metrics; crashed: counts internal errors.
    recorder: of usage and outcomes; `None` if nothing is recorded.
    store:    the database, whose calls block; `None` if nothing is kept. access: calls it in
              threads.
    first:    see First.
    send:     sends a message to the part's side in the leader.
    ask:      see Asks.
    side:     returns the side of an earlier part.
    own:      returns what the process has itself.
    flush:    settles and records the requests that have ended.
    stages_changed: call it when the part's stages would be others than before.
    """

    worker: int
    alone: bool
    leader: LeaderSide[Any, Any] | None
    config: Callable[[], Config]
    registry: CollectorRegistry
    crashed: OnCrash
    recorder: Recorder | None
    store: SqlStore | None
    access: StoreAccess | None
    first: First
    send: Callable[[Any], None]
    ask: Asks
    side: Finds
    own: Finds
    flush: Callable[[], None]
    stages_changed: Callable[[], None]


class ProcessSide(Generic[ToLeaderT, ToWorkerT]):
    """A part overrides what it has. Methods run in the event loop, so they never block.

    Those of parts that requests pass are `RequestSide`s: see gateway/stages/request_part.py.

    receives: the type of the messages of the part's side in the leader, a union of tagged frozen
    Structs.
    """

    receives: ClassVar[Any] = None

    async def start(self) -> None:
        """Read what is needed before the process serves. An outage blocks nothing."""

    async def ready(self, config: Config) -> None:
        """Get ready for a configuration that may take effect. Raises InvalidConfig."""

    def use(self, config: Config) -> None:
        """A configuration is in effect; the first one is when the side is built."""

    def follow(self, generation: Any) -> None:
        """Requests begin with this generation from now on: that of the start, once all sides are
        built; that of another configuration; or the same with other replicas."""

    def on_message(self, message: ToWorkerT) -> None:
        """Take a message of the part's side in the leader."""

    async def idle(self) -> None:
        """Return when nothing of the requests that have ended runs any more. No new ones begin."""

    def works(self) -> Sequence[Work]:
        """Return what runs while the process serves."""
        return ()

    async def close(self, within_s: float) -> None:
        """The last request has ended and is recorded: send and write the rest."""
