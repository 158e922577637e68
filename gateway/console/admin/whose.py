"""The query parameters of a caller and its end user, for limits and budgets."""

from typing import Annotated

from litestar.params import QueryParameter

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.end_users.process_side import EndUsersSide
from strowger_gateway.gateway.governance.end_users.whose import TeamAndUser, whose_of
from strowger_gateway.gateway.governance.limits.scope import Whose

KeyParameter = Annotated[
    str, QueryParameter(name="key", description="only what applies to the key of this name")
]
EndUserParameter = Annotated[
    str, QueryParameter(description="only this end user of the key, as clients name it")
]
TeamParameter = Annotated[
    str, QueryParameter(description="the team of a caller with a token, whose name is `key`")
]
UserParameter = Annotated[
    str, QueryParameter(description="the user of a caller with a token, whose name is `key`")
]
PlanParameter = Annotated[
    str, QueryParameter(description="the plan of a caller with a token, whose name is `key`")
]


def whose_in(
    gateway: Gateway, key: str, end_user: str, *, team: str = "", user: str = "", plan: str = ""
) -> Whose | None:
    """Return the caller that the parameters name; `None` without any. Raises InvalidRequest."""
    keyring = gateway.runtime.access.keyring

    def find(name: str) -> TeamAndUser | None:
        caller = keyring.named(name)
        return None if caller is None else (caller.team, caller.user)

    return whose_of(
        gateway.runtime.config,
        key,
        end_user,
        find,
        lambda: keyring.names,
        gateway.side(EndUsersSide).finder.table.would_name,
        Whose(key=key, team=team, user=user, plan=plan),
    )
