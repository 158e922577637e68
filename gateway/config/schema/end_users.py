"""The shape of `end_users` in config.yaml: how the gateway recognises the end users of clients."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

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
