"""MindIE's token interface and its routes."""

from typing import TYPE_CHECKING, Final, overload

from strowger_gateway.gateway.surfaces.base import (
    EmbeddingsRenderer,
    Inbound,
    Renderer,
)
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.json_surface import JsonSurface
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.mindie.errors import NAMES, error_body
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import (
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.mindie import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.mindie.translation")

__all__ = ("INFER_TOKEN", "ROUTES", "MindieSurface", "error_body")


class MindieSurface(JsonSurface):
    """Token ids in, token ids and text out; see
    `strowger_gateway.gateway.surfaces.base.Surface`.
    """

    name = "mindie"
    task: Task = "tokens"
    field_names = NAMES
    late = True

    def parse(self, inbound: Inbound) -> Request:
        return translation.parse_infer_token(inbound.body, model=inbound.model)

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        if not isinstance(request, TokenRequest):
            raise GatewayError("MindIE's token interface answers only token requests")
        return translation.InferTokenRenderer(request)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


INFER_TOKEN: Final = MindieSurface()
ROUTES: Final[tuple[HotRoute, ...]] = (
    HotRoute(
        path="/infer_token",
        surface=INFER_TOKEN,
        body=lambda: translation.InferTokenWire,
        summary="Continue token ids, as MindIE does, with the default model",
        default_model=True,
    ),
    HotRoute(
        path="/v1/models/{model}/infer_token",
        surface=INFER_TOKEN,
        body=lambda: translation.InferTokenWire,
        summary="Continue token ids, as MindIE does, with the model in the path",
    ),
)
