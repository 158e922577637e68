"""The end users of a serving process."""

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.process_side import BudgetsSide
from strowger_gateway.gateway.governance.end_users.end_users import EndUserFinder
from strowger_gateway.gateway.governance.end_users.metrics import EndUserCollector
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class EndUsersSide(ProcessSide[None, None]):
    """finder: over all generations of the configuration."""

    def __init__(self, at: ProcessContext) -> None:
        at.side(KeysSide).follow_rules(self._apply)
        self._config = at.config
        self._limits, self._budgets = at.side(LimitsSide).limits, at.side(BudgetsSide).budgets
        self.finder = EndUserFinder()
        self._apply()
        at.registry.register(EndUserCollector(self.finder))

    def use(self, config: Config) -> None:
        self._apply()

    def _apply(self) -> None:
        limits, budgets = self._limits.configured, self._budgets.configured
        self.finder.configure(self._config().end_users, limits, budgets)
