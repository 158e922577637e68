"""`GET /admin/gateways`, and the view of the page."""

from typing import Final

from markupsafe import Markup

from strowger_gateway.gateway.console.gateways.answer import GatewayList
from strowger_gateway.gateway.console.gateways.process_side import GatewaysSide
from strowger_gateway.gateway.console.gateways.view import say, sections
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, Nothing, PageView
from strowger_gateway.gateway.platform.language import sentence


async def gateways(call: AdminCall[Nothing]) -> GatewayList:
    """Raises Unavailable."""
    return await call.side(GatewaysSide).gateways()


async def render(call: AdminCall[Nothing]) -> Markup:
    """Raises Unavailable."""
    return sections(await gateways(call), await call.side(GatewaysSide).engines())


ROUTE: Final = AdminRoute(
    method="GET",
    path="/gateways",
    role="viewer",
    summary="The gateways with the same store: versions, configurations, workers, load",
    takes=Nothing,
    returns=GatewayList,
    answer=gateways,
)
VIEW: Final = PageView(
    say=say,
    name="gateways",
    title=sentence("Gateways and engines"),
    role="viewer",
    takes=Nothing,
    render=render,
)
