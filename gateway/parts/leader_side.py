"""The side of a part that exists once per gateway: in the leader, or in the only process."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct
from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.audit.log import AuditLog
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.reload_result import ReloadResult
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.storage.sql.sql import SqlStore

ToLeaderT = TypeVar("ToLeaderT")
ToWorkerT = TypeVar("ToWorkerT")
FoundT = TypeVar("FoundT")

Work = tuple[str, Callable[[], Awaitable[None]]]
"""A name, one of a small fixed set, and what runs until it is cancelled; see `keep_running`."""


class Finds(Protocol):
    """Finds an object by its class. Raises LookupError if there is none."""

    def __call__(self, kind: type[FoundT], /) -> FoundT: ...


class LeaderContext(Struct, frozen=True, kw_only=True, eq=False):
    """What the leader's sides get.

    first:    the configuration of the start. config: returns the one in effect.
    registry: of the leader's metrics; crashed: counts internal errors.
    store:    the database. imported_at: returns when the last complete import began,
              on the monotonic clock in seconds.
    broadcast: sends a message of the part to all serving processes.
    side:     returns the side of an earlier part.
    alone:    this process serves as well, and no other does.
    run_dir:  of sockets and locks. freed: returns when an earlier gateway has ended what may run
              once only; `None` without one.
    """

    first: Config
    config: Callable[[], Config]
    registry: CollectorRegistry
    crashed: OnCrash
    store: SqlStore
    imported_at: Callable[[], float]
    audit: AuditLog
    broadcast: Callable[[Any], None]
    side: Finds
    alone: bool
    run_dir: Path
    freed: Callable[[], Awaitable[None]] | None


class LeaderSide(Generic[ToLeaderT, ToWorkerT]):
    """A part overrides what it has. Methods run in the event loop of the leader.

    receives:  the type of the messages that the part's sides in serving processes send.
    questions: that of their questions. Both are unions of tagged frozen Structs.
    carries:   the type of what `carried` returns.
    """

    receives: ClassVar[Any] = None
    questions: ClassVar[Any] = None
    carries: ClassVar[Any] = None

    async def prepare(self, config: Config) -> None:
        """Get ready for a configuration, the first one too, before processes get it.

        Raises InvalidConfig.
        """

    async def start(self) -> None:
        """Read what is needed before a process serves. An outage blocks nothing."""

    def reloaded(self, result: ReloadResult) -> None:
        """The file was read again: its configuration is in effect, or rejected."""

    def first(self) -> ToWorkerT | None:
        """Return the message with which a new worker's side is built: the state until now."""
        return None

    def joined(self, worker: int, send: Callable[[ToWorkerT], None]) -> None:
        """A worker has started, and gets messages from now on."""

    def left(self, worker: int) -> None:
        """A worker has exited, in whatever way."""

    def on_message(self, worker: int, message: ToLeaderT) -> None:
        """Take a message of a worker's side."""

    async def answer(self, question: Any) -> object:
        """Answer what a worker's side asks; see ProcessContext.ask."""
        raise NotImplementedError

    def works(self) -> Sequence[Work]:
        """Return what runs from the start to the end."""
        return ()

    def carried(self) -> object:
        """Return what the gateway that takes over needs to know; `None` if nothing.

        It is sent as JSON, perhaps to another version of this program.
        """
        return None

    def carry(self, found: Any) -> None:
        """Take what the side of an earlier gateway has `carried`, before this one serves."""

    async def release(self) -> None:
        """A new gateway takes over: end what may run in one gateway at a time."""

    async def close(self) -> None:
        """The last worker has exited."""
