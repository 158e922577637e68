"""`GET /admin/models`, and the view of the page."""

from typing import Final

from markupsafe import Markup

from strowger_gateway.gateway.console.models.process_side import ModelsSide
from strowger_gateway.gateway.console.models.summary import ModelsAsked, ModelSummaries
from strowger_gateway.gateway.console.models.view import say, sections
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.platform.language import sentence


async def models(call: AdminCall[ModelsAsked]) -> ModelSummaries:
    return await call.side(ModelsSide).read(call.given)


async def render(call: AdminCall[ModelsAsked]) -> Markup:
    return sections(await models(call), call.given)


ROUTE: Final = AdminRoute(
    method="GET",
    path="/models",
    role="viewer",
    summary="Models: what they route to, their backends' state, facts and prices",
    takes=ModelsAsked,
    returns=ModelSummaries,
    answer=models,
)
VIEW: Final = PageView(
    say=say,
    name="models",
    title=sentence("Models and prices"),
    group="models",
    role="viewer",
    takes=ModelsAsked,
    render=render,
)
