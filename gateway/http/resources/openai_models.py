"""List the models as OpenAI's clients expect."""

from litestar import Request, get
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from gateway.access.auth import Caller
from gateway.state import Gateway
from gateway.surfaces.openai.surface import model_body, models_body
from schemas.errors import ModelNotFound

_Request = Request[object, object, State]


def openai_models(gateway: Gateway) -> list[ControllerRouterHandler]:
    def caller(request: _Request) -> Caller:
        return gateway.runtime.keyring.caller(request.scope["headers"])

    @get("/v1/models", media_type="application/json", summary="The models that this key may use")
    async def models(request: _Request) -> bytes:
        return models_body(gateway.model_names(caller(request)), gateway.started_at)

    @get("/v1/models/{model:path}", media_type="application/json", summary="One model")
    async def model(request: _Request, model: FromPath[str]) -> bytes:
        name = model.removeprefix("/")
        gateway.runtime.table.find(name, caller(request).may_use)
        if name.endswith("*"):
            raise ModelNotFound(f"model: model {name!r} not found", param="model")
        return model_body(name, gateway.started_at)

    return [models, model]
