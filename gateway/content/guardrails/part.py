"""Guardrails as a part: the hooks of each generation, and the stage that holds requests to them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.content.guardrails.findings.column import FINDINGS
from strowger_gateway.gateway.content.guardrails.setup import guards_of
from strowger_gateway.gateway.content.hooks.counts import GuardCollector, GuardCounts
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import (
    Closing,
    Prepared,
    RequestPart,
    RequestSide,
)
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.guardrails.findings.rows import FoundRequests
    from strowger_gateway.gateway.content.hooks.guarded_request import Guards
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class GuardrailsPart(RequestPart):
    """`guardrails` is a field of `Config`. Hooks are imported only with guardrails."""

    name = "guardrails"
    columns = (FINDINGS,)

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.content.guardrails.check import check_guardrails

        check_guardrails(config, problems)

    def prepare(self, generation: "Generation", before: Prepared | None) -> Prepared | None:
        """A generation with other settings gets hooks of its own."""
        settings = generation.config.guardrails
        if isinstance(before, PreparedGuards) and before.settings is settings:
            return before
        guards = guards_of(generation.config)
        return None if guards is None else PreparedGuards(settings, guards)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        return GuardrailsSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.content.guardrails.findings.admin import findings_route

        return (findings_route(_recorded),)

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.content.guardrails.findings.admin import findings_view

        return (findings_view(_recorded),)


class PreparedGuards(Prepared):
    """The guardrails of one generation, which end with its last request."""

    def __init__(self, settings: tuple[GuardrailConfig, ...], guards: "Guards") -> None:
        self.settings = settings
        self.guards = guards

    def closing(self) -> Sequence[Closing]:
        return (self.guards,)


class GuardrailsSide(RequestSide[None, None]):
    """counts: of all generations."""

    def __init__(self, at: ProcessContext) -> None:
        self.counts = GuardCounts()
        self._store: SqlStore | None = at.store
        self._access: StoreAccess | None = at.access
        at.registry.register(GuardCollector(self.counts))

    def stages(
        self, generation: "Generation", prepared: PreparedGuards | None, at: "HotRoute"
    ) -> "Sequence[Stage]":
        if prepared is None:
            return ()
        from strowger_gateway.gateway.content.guardrails.stage import GuardrailStage

        return (GuardrailStage(prepared.guards, self.counts),)

    async def recorded(self, since: float, until: float) -> "FoundRequests | None":
        """Return what the store has of findings; `None` without one. Raises StoreUnavailable.

        since, until: Unix seconds.
        """
        from strowger_gateway.gateway.content.guardrails.findings.rows import (
            requests_with_findings,
        )

        store, access = self._store, self._access
        if store is None or access is None:
            return None
        database = store.database
        return await access.call(lambda _: requests_with_findings(database, since, until))


async def _recorded(call: AdminCall[Any], since: float, until: float) -> "FoundRequests | None":
    return await call.side(GuardrailsSide).recorded(since, until)
