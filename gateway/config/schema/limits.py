"""The shape of `limits` and `end_users` in config.yaml."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import Amount, Name, RuleName, Wait

Each = Literal["key", "team", "user", "end_user"]
"""Which of the subjects of a rule are held apart."""


class LimitWho(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose requests count: those of one key, one team or one user, or all of them (`any`)."""

    key: Name | None = None
    team: Name | None = None
    user: Name | None = None
    any: bool = False


class Limit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be used in any span of one period; `None` does not limit.

    each:       with `who: {any: true}`, every key, team or user has the whole limit for itself;
                with any `who`, every end user of its clients (see EndUsers).
    models:     names or wildcards; they share the limit.
    tokens:     prompt and completion. concurrent: requests at the same time.
    exact:      never exceeded; false: each worker may exceed it by what it holds in advance.
    wait_s:     hold a request this long for room before it is refused.
    on_outage:  without Redis, each gateway limits alone, or requests are refused.
    plan:       only requests of callers with this plan count; "" is all.
    """

    name: Name
    who: LimitWho = LimitWho()
    each: Each | None = None
    models: tuple[Name, ...] = ("*",)
    requests: Amount | None = None
    tokens: Amount | None = None
    concurrent: Amount | None = None
    per: Literal["minute", "hour", "day"] = "minute"
    exact: bool = True
    wait_s: Wait = 0.0
    on_outage: Literal["local", "refuse"] = "local"
    plan: Annotated[str, Meta(extra={"resolved": True})] = ""


class OwnLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit of one issued key, one team or one plan: a Limit whose `who` is known.

    name: `None` takes that of the period. each: `end_user` gives every end user the whole limit.
    """

    name: RuleName | None = None
    each: Literal["end_user"] | None = None
    models: tuple[Name, ...] = ("*",)
    requests: Amount | None = None
    tokens: Amount | None = None
    concurrent: Amount | None = None
    per: Literal["minute", "hour", "day"] = "minute"
    exact: bool = True
    wait_s: Wait = 0.0
    on_outage: Literal["local", "refuse"] = "local"


OwnLimits = Annotated[tuple[OwnLimit, ...], Meta(max_length=20)]


EndUserSource = Annotated[
    str,
    Meta(
        pattern=r"^(user|safety_identifier|header:[A-Za-z0-9-]{1,128})$",
        description="user, safety_identifier or header:NAME",
    ),
]


class EndUsers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For limits and budgets with `each: end_user`.

    sources:     where a request names its end user; the first that it has counts.
    missing:     requests that name none share an account per key, or are refused.
    max_per_key: end users with an account of their own, for each key; the others share one.
    """

    sources: Annotated[tuple[EndUserSource, ...], Meta(min_length=1, max_length=8)] = (
        "user",
        "safety_identifier",
    )
    missing: Literal["share", "refuse"] = "share"
    max_per_key: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
