"""The side of a part in each process that serves requests."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import Struct
from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.storage.store_access import StoreAccess

ToLeaderT = TypeVar("ToLeaderT")
ToWorkerT = TypeVar("ToWorkerT")
AnswerT = TypeVar("AnswerT")


class ProcessContext(Struct, frozen=True, kw_only=True, eq=False):
    """What the sides in a serving process get.

    worker:   the number of this process, from 0; 0 if it is the only one.
    config:   returns the configuration in effect.
    registry: of the process's metrics; crashed: counts internal errors.
    store:    the database, whose calls run in threads.
    first:    the message of `LeaderSide.first`.
    send:     sends a message to the part's side in the leader.
    ask:      sends a question there, and returns the answer as a value of the type given. Raises
              Unavailable if the leader does not answer.
    side:     returns the side of an earlier part.
    flush:    settles and records the requests that have ended.
    stages_changed: call it when `Prepared.stages` would return others than before.
    """

    worker: int
    config: Callable[[], Config]
    registry: CollectorRegistry
    crashed: OnCrash
    store: StoreAccess
    first: Any
    send: Callable[[Any], None]
    ask: Callable[[Any, Any], Awaitable[Any]]
    side: Callable[[type[Any]], Any]
    flush: Callable[[], None]
    stages_changed: Callable[[], None]
    run_dir: Path


class ProcessSide(Generic[ToLeaderT, ToWorkerT]):
    """A part overrides what it has. Methods run in the event loop, so they never block.

    Sides that have stages, or keep something per generation, are `ServesRequests`, too: see
    gateway/stages/stage.py.
    """

    async def start(self) -> None:
        """Read what is needed before the process serves. An outage blocks nothing."""

    async def ready(self, config: Config) -> None:
        """Get ready for a configuration that may take effect. Raises InvalidConfig."""

    def use(self, config: Config) -> None:
        """A configuration is in effect; the first one is when the side is built."""

    def on_message(self, message: ToWorkerT) -> None:
        """Take a message of the part's side in the leader."""

    def works(self) -> Sequence[Work]:
        """Return what runs while the process serves."""
        return ()

    async def close(self, within_s: float) -> None:
        """The last request has ended and is recorded: send and write the rest."""
