"""The limits and budgets in force: those of the configuration, and those of issued keys."""

import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from strowger_gateway.gateway.config.own_rules import (
    budget_of,
    configured_budgets,
    configured_limits,
    limit_of,
)
from strowger_gateway.gateway.config.schema.budgets import Budget, UseModel
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from strowger_gateway.gateway.governance.issued_keys.rule_checks import may_move
from strowger_gateway.gateway.platform.time_zones import zone_named
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey

_log = logging.getLogger("strowger.budgets")


class RulesInForce:
    """Combines them whenever either changes.

    A tuple that it returned is the same object until something in it changes.
    """

    def __init__(
        self, config: Callable[[], Config], keys: Callable[[], Sequence[IssuedKey]]
    ) -> None:
        """config: the current one. keys: the list in effect, another object once it changes."""
        self._config, self._keys = config, keys
        self._of: tuple[Config, Sequence[IssuedKey]] | None = None
        self._limits: tuple[Limit, ...] = ()
        self._budgets: tuple[Budget, ...] = ()

    def limits(self) -> tuple[Limit, ...]:
        self._refresh()
        return self._limits

    def budgets(self) -> tuple[Budget, ...]:
        self._refresh()
        return self._budgets

    def _refresh(self) -> None:
        config, keys = self._config(), self._keys()
        if self._of is not None and self._of[0] is config and self._of[1] is keys:
            return
        self._of = config, keys
        limits, budgets = limits_in_force(config, keys), budgets_in_force(config, keys)
        if limits != self._limits:
            self._limits = limits
        if budgets != self._budgets:
            self._budgets = budgets


def limits_in_force(config: Config, keys: Sequence[IssuedKey]) -> tuple[Limit, ...]:
    """Return the limits of the configuration, then those of the keys."""
    own = [
        limit_of(LimitWho(key=key.name), limit)
        for key in _issued(config, keys)
        for limit in key.limits
    ]
    return (*configured_limits(config), *own)


def budgets_in_force(config: Config, keys: Sequence[IssuedKey]) -> tuple[Budget, ...]:
    """Return the budgets of the configuration, then those of the keys."""
    own = [
        _in_known_zone(_permitted(key, budget_of(LimitWho(key=key.name), budget), config))
        for key in _issued(config, keys)
        for budget in key.budgets
    ]
    return (*configured_budgets(config), *own)


def _permitted(key: IssuedKey, budget: Budget, config: Config) -> Budget:
    """A budget refuses once the model that it moves to is gone, or not for the key or its team."""
    rule = budget.on_exceeded
    known = isinstance(rule, UseModel) and rule.use_model in {one.name for one in config.models}
    if rule == "refuse" or (known and may_move(key, budget, config)):
        return budget
    return replace(budget, on_exceeded="refuse")


def _in_known_zone(budget: Budget) -> Budget:
    """Another machine may have issued the key, with newer time zones than this one has."""
    try:
        zone_named(budget.time_zone)
    except (ValueError, OSError, LookupError):
        _log.error(
            "budget %s: this machine does not know the time zone %r; its periods are those of UTC "
            "until the machine's tzdata is updated and the gateway restarted",
            budget.name,
            budget.time_zone,
        )
        return replace(budget, time_zone="UTC")
    return budget


def _issued(config: Config, keys: Sequence[IssuedKey]) -> list[IssuedKey]:
    """The keys with rules, without those that one of the file replaces."""
    named = {key.name for key in config.auth.keys}
    return [
        key
        for key in keys
        if (key.limits or key.budgets) and key.revoked is None and key.name not in named
    ]
