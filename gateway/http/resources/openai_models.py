"""List the models as OpenAI's clients expect, and as Anthropic's and Google's, by their headers."""

from litestar import Request, get
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery
from litestar.types import ControllerRouterHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.http.resources.model_cards import model_card
from strowger_gateway.gateway.surfaces.anthropic.models import PAGE, VERSION
from strowger_gateway.gateway.surfaces.anthropic.models import model_body as anthropic_model
from strowger_gateway.gateway.surfaces.anthropic.models import models_body as anthropic_models
from strowger_gateway.gateway.surfaces.gemini.models import CLIENTS as GOOGLES
from strowger_gateway.gateway.surfaces.gemini.models import model_body as gemini_model
from strowger_gateway.gateway.surfaces.gemini.models import models_body as gemini_models
from strowger_gateway.gateway.surfaces.model_card import ModelCard
from strowger_gateway.gateway.surfaces.openai.models import model_body, models_body
from strowger_gateway.schemas.errors import ModelNotFound

_Request = Request[object, object, State]


def _speaks_anthropic(request: _Request) -> bool:
    return any(name == VERSION for name, _ in request.scope["headers"])


def _speaks_google(request: _Request) -> bool:
    return any(name in GOOGLES for name, _ in request.scope["headers"])


def openai_models(gateway: Gateway) -> list[ControllerRouterHandler]:
    async def caller(request: _Request) -> Caller:
        return await gateway.runtime.access.keyring.caller(request.scope)

    def card(name: str) -> ModelCard:
        runtime = gateway.runtime
        return model_card(runtime, runtime.table.find(name), name)

    @get("/v1/models", media_type="application/json", summary="The models that this key may use")
    async def models(
        request: _Request,
        limit: FromQuery[int] = PAGE,
        after_id: FromQuery[str] = "",
        before_id: FromQuery[str] = "",
        pageSize: FromQuery[int] = 0,  # noqa: N803  Google's name
        pageToken: FromQuery[str] = "",  # noqa: N803
    ) -> bytes:
        names = gateway.runtime.table.names((await caller(request)).may_use)
        if _speaks_anthropic(request):
            return anthropic_models(
                names,
                card,
                gateway.processes.status.started_at,
                limit=limit,
                after=after_id,
                before=before_id,
            )
        if _speaks_google(request):
            return gemini_models(names, card, limit=pageSize, after=pageToken)
        return models_body(map(card, names), gateway.processes.status.started_at)

    @get("/v1/models/{model:path}", media_type="application/json", summary="One model")
    async def model(request: _Request, model: FromPath[str]) -> bytes:
        name = model.removeprefix("/")
        gateway.runtime.table.find(name, (await caller(request)).may_use)
        if name.endswith("*"):
            raise ModelNotFound(f"model: model {name!r} not found", param="model")
        if _speaks_google(request):
            return gemini_model(card(name))
        body = anthropic_model if _speaks_anthropic(request) else model_body
        return body(card(name), gateway.processes.status.started_at)

    return [models, model]
