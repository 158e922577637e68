"""The certificates of the listener, read and watched once per gateway."""

from collections.abc import Sequence

from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.server.tls.files import TlsFiles
from strowger_gateway.gateway.server.tls.watch import TlsWatch


class TlsLeader(LeaderSide[None, TlsFiles]):
    """Processes get files that have been proved to work."""

    def __init__(self, at: LeaderContext) -> None:
        """Raises InvalidConfig if the files cannot be used."""
        self._watch = TlsWatch(at.first.server.tls)
        self._watch.send = at.broadcast
        self._config = at.config
        at.registry.register(self._watch)

    def first(self) -> TlsFiles | None:
        return self._watch.files

    def works(self) -> Sequence[Work]:
        return (("certificate watcher", self._run),)

    async def _run(self) -> None:
        await self._watch.run(lambda: self._config().server.tls)
