"""`GET /admin/config`, and the view of the page."""

from typing import Final

from markupsafe import Markup

from strowger_gateway.gateway.console.configuration.answer import ConfigInForce, SettingsAsked
from strowger_gateway.gateway.console.configuration.process_side import ConfigurationSide
from strowger_gateway.gateway.console.configuration.view import sections
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)


async def config_in_force(call: AdminCall[SettingsAsked]) -> ConfigInForce:
    """Raises Unavailable."""
    return await call.side(ConfigurationSide).read(call.given)


async def render(call: AdminCall[SettingsAsked]) -> Markup:
    """Raises Unavailable."""
    return sections(await config_in_force(call), call.given)


ROUTE: Final = AdminRoute(
    method="GET",
    path="/config",
    role="viewer",
    summary="The configuration in force: settings without secrets, their origins, and reloads",
    takes=SettingsAsked,
    returns=ConfigInForce,
    answer=config_in_force,
)
VIEW: Final = PageView(
    say=say,
    name="config",
    title=sentence("Configuration"),
    role="viewer",
    takes=SettingsAsked,
    render=render,
)
