"""What `attribution` in config.yaml may say."""

from typing import Annotated

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import Name

MOST_CLIENTS = 200
MOST_FIELDS = 16

UserAgent = Annotated[str, Meta(min_length=1, max_length=200)]


class ClientProgram(Struct, frozen=True, kw_only=True):
    """A client program of one's own.

    name: as it is recorded. user_agent: how its User-Agent begins, in any case.
    """

    name: Name
    user_agent: UserAgent


class Attribution(Struct, frozen=True, kw_only=True):
    """clients: they win over the built-in table, the first that matches.

    metadata: fields of a request's `metadata` that become tags, as `FIELD=VALUE`.
    """

    clients: Annotated[tuple[ClientProgram, ...], Meta(max_length=MOST_CLIENTS)] = ()
    metadata: Annotated[tuple[Name, ...], Meta(max_length=MOST_FIELDS)] = ()
