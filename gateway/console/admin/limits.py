"""`GET /admin/limits`: what is used of each limit now, of all callers or of one."""

import time
from collections.abc import Callable, Sequence

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.console.admin.whose import (
    EndUserParameter,
    KeyParameter,
    PlanParameter,
    TeamParameter,
    UserParameter,
    whose_in,
)
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from strowger_gateway.gateway.governance.limits.scope import Whose
from strowger_gateway.gateway.governance.limits.standing import (
    LimitPlace,
    LimitStanding,
    places_of,
)

_UNCACHED = {"cache-control": "no-store"}


class LimitOverview(Struct, frozen=True, kw_only=True):
    """at: Unix seconds. key, end_user: that were asked for; the end user by its account's name."""

    at: float
    key: str = ""
    end_user: str = ""
    limits: tuple[LimitStanding, ...]


async def limit_standings(
    gateway: Gateway, places: Sequence[LimitPlace]
) -> tuple[LimitStanding, ...]:
    """What is used at these places, by all processes. Raises Unavailable."""
    return await gateway.side(LimitsSide).standings(places)


async def read_limits(gateway: Gateway, whose: Whose | None) -> LimitOverview:
    """Read the limits in force: all of them, or those that apply to a caller.

    Without an end user, the end users that have used most of a limit are shown. Raises Unavailable.
    """
    if whose is None:
        limits = gateway.side(KeysSide).rules.limits()
        places = [LimitPlace(one.name, "", one.each is not None) for one in limits]
        return LimitOverview(at=time.time(), limits=await limit_standings(gateway, places))
    places = places_of(gateway.side(LimitsSide).limits.rules_of(whose.key), whose)
    return LimitOverview(
        at=time.time(),
        key=whose.key,
        end_user=whose.end_user,
        limits=await limit_standings(gateway, places),
    )


def limits_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/limits",
        summary="What is used of each limit now, reserved and left",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def limits(
        key: KeyParameter = "",
        end_user: EndUserParameter = "",
        team: TeamParameter = "",
        user: UserParameter = "",
        plan: PlanParameter = "",
    ) -> Response[LimitOverview]:
        gateway = current()
        whose = whose_in(gateway, key, end_user, team=team, user=user, plan=plan)
        return Response(await read_limits(gateway, whose), headers=_UNCACHED)

    return limits
