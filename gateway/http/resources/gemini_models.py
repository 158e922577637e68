"""List the models as clients of the Gemini API expect."""

from litestar import Request, get
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery
from litestar.types import ControllerRouterHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.http.resources.model_cards import model_card
from strowger_gateway.gateway.surfaces.gemini.models import model_body, models_body
from strowger_gateway.gateway.surfaces.model_card import ModelCard
from strowger_gateway.schemas.errors import ModelNotFound

_Request = Request[object, object, State]


def gemini_models(gateway: Gateway) -> list[ControllerRouterHandler]:
    async def caller(request: _Request) -> Caller:
        return await gateway.runtime.access.keyring.caller(request.scope)

    def card(name: str) -> ModelCard:
        runtime = gateway.runtime
        return model_card(runtime, runtime.table.find(name), name)

    @get(
        "/v1beta/models",
        media_type="application/json",
        summary="The models that this key may use, as Gemini lists them",
    )
    async def models(
        request: _Request,
        pageSize: FromQuery[int] = 0,  # noqa: N803  Google's name
        pageToken: FromQuery[str] = "",  # noqa: N803
    ) -> bytes:
        names = gateway.runtime.table.names((await caller(request)).may_use)
        return models_body(names, card, limit=pageSize, after=pageToken)

    @get(
        "/v1beta/models/{model:path}",
        media_type="application/json",
        summary="One model, as Gemini describes it",
    )
    async def model(request: _Request, model: FromPath[str]) -> bytes:
        name = gateway.runtime.table.prefixed(model.removeprefix("/"))
        gateway.runtime.table.find(name, (await caller(request)).may_use)
        if name.endswith("*"):
            raise ModelNotFound(f"model: model {name!r} not found", param="model")
        return model_body(card(name))

    return [models, model]
