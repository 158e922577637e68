"""What a reload asks of each process that serves: prepare, then commit or abandon."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from gateway.config.schema import Config
from gateway.engine_process.process import EngineView


class Proposal(Struct, frozen=True, kw_only=True):
    """A configuration that may come into force. number: counts the proposals.

    engines: by provider, those that will serve it, started or not.
    """

    number: int
    config: Config
    engines: Mapping[str, EngineView]


class ProcessEnded(Exception):
    """The process ended while it was asked."""


class Target(Protocol):
    """One process that serves, this one or another. name: for the operator."""

    @property
    def name(self) -> str: ...

    async def prepare(self, proposal: Proposal) -> tuple[str, ...]:
        """Make everything ready for it. Returns what is wrong with it, nothing where it can be.

        Raises Ended.
        """
        ...

    async def commit(self, number: int) -> None:
        """Bring what was prepared under this number into force.

        Returns when it is, or when the process has ended.
        """
        ...

    def discard(self, number: int) -> None:
        """What was prepared under this number will not be."""
        ...

    async def wait_old_requests(self) -> None:
        """Returns when no request is left that began with a former configuration."""
        ...

    def notify_config_rejected(self, *, refused: bool) -> None:
        """Whether the file, as it is now, was refused, so that an older one is in force."""
        ...
