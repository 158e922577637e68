"""MindIE's token interface and its routes."""

from typing import Final, overload

from gateway.surfaces.base import (
    EmbeddingsRenderer,
    Inbound,
    Renderer,
)
from gateway.surfaces.hot_route import HotRoute
from gateway.surfaces.json_surface import JsonSurface
from gateway.surfaces.mindie.errors import NAMES, error_body
from gateway.surfaces.mindie.parse import parse_infer_token
from gateway.surfaces.mindie.render import InferTokenRenderer
from gateway.surfaces.mindie.wire import InferTokenWire
from schemas.errors import GatewayError
from schemas.fields import Task
from schemas.requests import EmbeddingsRequest, GenerateRequest, Request, TokenRequest

__all__ = ("INFER_TOKEN", "ROUTES", "MindieSurface", "error_body")


class MindieSurface(JsonSurface):
    """Token ids in, token ids and text out; see `gateway.surfaces.base.Surface`."""

    name = "mindie"
    task: Task = "tokens"
    field_names = NAMES

    def parse(self, inbound: Inbound) -> Request:
        return parse_infer_token(inbound.body, model=inbound.model)

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        if not isinstance(request, TokenRequest):
            raise GatewayError("MindIE's token interface answers only token requests")
        return InferTokenRenderer(request)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


INFER_TOKEN: Final = MindieSurface()
ROUTES: Final[tuple[HotRoute, ...]] = (
    HotRoute(
        path="/infer_token",
        surface=INFER_TOKEN,
        body=InferTokenWire,
        summary="Continue token ids, as MindIE does, with the default model",
        default_model=True,
    ),
    HotRoute(
        path="/v1/models/{model}/infer_token",
        surface=INFER_TOKEN,
        body=InferTokenWire,
        summary="Continue token ids, as MindIE does, with the model in the path",
    ),
)
