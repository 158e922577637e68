"""The shape of `budgets` in config.yaml."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.limits import Each, LimitWho
from strowger_gateway.gateway.config.schema.units import (
    MOST_COUNTED_USD,
    ManyTokens,
    Name,
    RuleName,
    Share,
)

Per = Literal["day", "week", "month", "total"]


class UseModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Send requests to this model once the budget is used up."""

    use_model: Name


class CountUsd(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attempt counts whose price is unknown, in US dollars."""

    count_usd: Annotated[float, Meta(ge=0, le=MOST_COUNTED_USD)]


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be spent in a calendar period: US dollars or tokens.

    who, each, models: as in Limit.
    usd, tokens:   one of them. per: `total` never begins again.
    time_zone:     in which days, weeks and months begin; a week begins on Monday.
    alerts:        shares of the budget; each that spend passes is an alert, once per period.
    on_exceeded:   refuse requests, or send them to a cheaper model.
    unknown_price: refuse requests that a backend without a price may answer, or count so much.
    on_outage:     without the store, each gateway decides by what it knows, or refuses requests.
    """

    name: Name
    who: LimitWho = LimitWho()
    each: Each | None = None
    models: tuple[Name, ...] = ("*",)
    usd: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    tokens: ManyTokens | None = None
    per: Per = "month"
    time_zone: Name = "UTC"
    alerts: tuple[Share, ...] = ()
    on_exceeded: Literal["refuse"] | UseModel = "refuse"
    unknown_price: Literal["deny"] | CountUsd = "deny"
    on_outage: Literal["local", "refuse"] = "local"


class OwnBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A budget of one issued key or one team: a Budget whose `who` is known.

    name: `None` takes that of the period. each: `end_user` gives every end user the whole budget.
    """

    name: RuleName | None = None
    each: Literal["end_user"] | None = None
    models: tuple[Name, ...] = ("*",)
    usd: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    tokens: ManyTokens | None = None
    per: Per = "month"
    time_zone: Name = "UTC"
    alerts: tuple[Share, ...] = ()
    on_exceeded: Literal["refuse"] | UseModel = "refuse"
    unknown_price: Literal["deny"] | CountUsd = "deny"
    on_outage: Literal["local", "refuse"] = "local"


OwnBudgets = Annotated[tuple[OwnBudget, ...], Meta(max_length=20)]


class SpendCap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much the backends of a provider may cost in a calendar period; then others serve.

    usd, per, time_zone: as of a Budget.
    models: the vendor's names of models, which end in `*` for several; they have one cap together.
    """

    usd: Annotated[float, Meta(gt=0, le=1e9)]
    per: Per = "month"
    time_zone: Name = "UTC"
    models: tuple[Name, ...] = ("*",)
