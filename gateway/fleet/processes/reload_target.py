"""The two-phase interface of a reload to each serving process: prepare, then commit or discard."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.config.schema.config import Config


class Proposal(Struct, frozen=True, kw_only=True):
    """A configuration to put into effect.

    number:  counts the proposals.
    engines: by provider, those that will serve it, started or not.
    """

    number: int
    config: Config
    engines: Mapping[str, EngineView]


class ProcessEnded(Exception):
    """The process exited before it answered."""


class Target(Protocol):
    """A serving process, this one or another. name: for log messages."""

    @property
    def name(self) -> str: ...

    async def prepare(self, proposal: Proposal) -> tuple[str, ...]:
        """Get everything ready for the proposal; return its problems, () if there are none.

        Raises ProcessEnded.
        """
        ...

    async def commit(self, number: int) -> None:
        """Put the configuration prepared under this number into effect.

        Return when that is done, or when the process has exited.
        """
        ...

    def discard(self, number: int) -> None:
        """Drop what was prepared under this number."""
        ...

    async def wait_old_requests(self) -> None:
        """Return when no request is left that started under an earlier configuration."""
        ...

    def notify_config_rejected(self, *, rejected: bool) -> None:
        """Report whether the current file was rejected, so that an older one is in effect."""
        ...
