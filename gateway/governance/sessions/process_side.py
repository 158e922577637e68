"""The sessions at /admin in a serving process."""

from pathlib import Path
from typing import Protocol

from strowger_gateway.gateway.config.schema_store import SPOOL
from strowger_gateway.gateway.governance.access.ended_sessions import EndedSessions
from strowger_gateway.gateway.governance.access.wrong_keys import WrongKeyThrottle
from strowger_gateway.gateway.governance.sessions.desk import AdminSessions
from strowger_gateway.gateway.governance.sessions.tokens import SessionTokens
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class HasSessionTokens(Protocol):
    """Who may come in under a generation of the configuration."""

    @property
    def session_tokens(self) -> SessionTokens: ...


class GenerationWithSessions(Protocol):
    """A generation of the configuration."""

    @property
    def access(self) -> HasSessionTokens: ...


class SessionsSide(ProcessSide[None, None]):
    """desk: opens and ends sessions; without a store, those that the operator's key opens.

    failed: sign-ins with a wrong key, which get slower.
    """

    def __init__(self, at: ProcessContext) -> None:
        self._generation: GenerationWithSessions | None = None
        self.failed = WrongKeyThrottle(what="failed sign-ins to /admin")
        self.desk = AdminSessions(
            self._tokens,
            lambda: at.config().auth.admin_session_s,
            EndedSessions(Path(at.config().store.spool or SPOOL)),
            None if at.store is None else at.store.admin_sessions,
        )

    def follow(self, generation: GenerationWithSessions) -> None:
        self._generation = generation

    async def start(self) -> None:
        self.desk.start()

    async def close(self, within_s: float) -> None:
        await self.desk.close()

    def _tokens(self) -> SessionTokens:
        assert self._generation is not None, "a request came before the first generation"
        return self._generation.access.session_tokens
