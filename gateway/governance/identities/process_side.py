"""The identity providers of a serving process."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from strowger_gateway.gateway.governance.identities.metrics import IssuerCollector
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.governance.identities.issuer_keys import KnownIssuers

TICK_S: Final = 0.5
"""Interval between checks whether keys are due."""


class KnowsIssuers(Protocol):
    """Who may come in under a generation of the configuration."""

    @property
    def issuers(self) -> "KnownIssuers | None": ...


class GenerationWithIssuers(Protocol):
    """A generation of the configuration."""

    @property
    def access(self) -> KnowsIssuers: ...


class IdentitiesSide(ProcessSide[None, None]):
    """Follows the issuers of the configuration in effect."""

    def __init__(self, at: ProcessContext) -> None:
        self._issuers: KnownIssuers | None = None
        at.registry.register(IssuerCollector(lambda: self._issuers))

    def follow(self, generation: GenerationWithIssuers) -> None:
        self._issuers = generation.access.issuers

    def works(self) -> Sequence[Work]:
        return (("issuers", self._tick),)

    async def _tick(self) -> None:
        """Fetch the keys of identity providers when they are due, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            if self._issuers is not None:
                self._issuers.tick()
