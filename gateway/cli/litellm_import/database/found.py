"""What the import of a database brings: keys for the store, and sections for config.yaml."""

from msgspec import Struct

from strowger_gateway.gateway.cli.litellm_import.ledger import Listed
from strowger_gateway.gateway.config.schema.budgets import OwnBudget
from strowger_gateway.gateway.config.schema.limits import OwnLimit


class OldSecret(Struct, frozen=True, kw_only=True):
    """A secret that a rotation has replaced. until: Unix seconds."""

    digest: str
    until: float


class FoundKey(Struct, frozen=True, kw_only=True):
    """A key of LiteLLM, as it is issued here. Times are Unix seconds.

    digest: SHA-256 of the secret in hexadecimal, which is all that LiteLLM stores of it.
    spend:  US dollars in the current period of its budget; 0 without a budget.
    """

    name: str
    digest: str
    last4: str
    team: str = ""
    user: str = ""
    models: tuple[str, ...] = ("*",)
    tags: tuple[str, ...] = ()
    expires: float | None = None
    disabled: bool = False
    created: float = 0.0
    last_used: float | None = None
    limits: tuple[OwnLimit, ...] = ()
    budgets: tuple[OwnBudget, ...] = ()
    old: tuple[OldSecret, ...] = ()
    spend: float = 0.0


class People(Struct, frozen=True, kw_only=True):
    """All that is not a model or a setting.

    teams, limits, budgets: sections of config.yaml.
    team_spend, user_spend: US dollars by name, of the current period of their budgets.
    """

    keys: tuple[FoundKey, ...]
    teams: tuple[dict[str, object], ...]
    limits: tuple[dict[str, object], ...]
    budgets: tuple[dict[str, object], ...]
    team_spend: dict[str, float]
    user_spend: dict[str, float]
    listed: tuple[Listed, ...]

    @property
    def spends(self) -> bool:
        """Whether anything has a budget in dollars."""
        teams = any(team.get("budgets") for team in self.teams)
        return bool(self.budgets) or teams or any(key.budgets for key in self.keys)
