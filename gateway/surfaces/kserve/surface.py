"""The KServe v2 surface for TensorRT-LLM requests, and its routes.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol, with Triton's
extensions for binary data and for generating text. gRPC is not supported.
"""

from typing import TYPE_CHECKING, Final, overload

from strowger_gateway.gateway.surfaces.base import (
    EmbeddingsRenderer,
    Inbound,
    Renderer,
)
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.json_surface import UNTOLD_TYPES, JsonSurface
from strowger_gateway.gateway.surfaces.kserve.binary import OCTETS, decompress, json_length
from strowger_gateway.gateway.surfaces.kserve.bodies import NAMES, VERSION, error_body
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import EmbeddingsRequest, GenerateRequest, Request

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.kserve import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.kserve.translation")


class InferSurface(JsonSurface):
    """Tensors in, tensors out, of tokens or of text; see
    `strowger_gateway.gateway.surfaces.base.Surface`.
    """

    name = "kserve"
    task: Task | None = None
    accepts = (OCTETS, *UNTOLD_TYPES)
    field_names = NAMES
    late = True

    def json_length(self, inbound: Inbound) -> int:
        return json_length(inbound)

    def parse(self, inbound: Inbound) -> Request:
        return translation.parse_infer(inbound)

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        if isinstance(request, translation.InferRequest | translation.InferTextRequest):
            return translation.InferRenderer(request)
        raise _not_ours(request)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


class GenerateSurface(JsonSurface):
    """Flat JSON in; text or tokens out; see `strowger_gateway.gateway.surfaces.base.Surface`."""

    name = "kserve"
    task: Task | None = None
    field_names = NAMES
    late = True

    def __init__(self, *, streams: bool) -> None:
        """streams: this is generate_stream, which answers with server-sent events."""
        self._streams = streams

    def parse(self, inbound: Inbound) -> Request:
        return translation.parse_generate(inbound, decompress(inbound), streams=self._streams)

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        if isinstance(request, translation.GenerateTextRequest | translation.GenerateTokensRequest):
            return translation.GenerateRenderer(request)
        raise _not_ours(request)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


def _not_ours(request: Request) -> GatewayError:
    return GatewayError(f"{type(request).__name__} is not a request of the KServe surface")


INFER: Final = InferSurface()
GENERATE: Final = GenerateSurface(streams=False)
GENERATE_STREAM: Final = GenerateSurface(streams=True)


def _routes(base: str) -> tuple[HotRoute, ...]:
    return (
        HotRoute(
            path=f"{base}/infer",
            surface=INFER,
            body=lambda: translation.InferWire,
            summary="TensorRT-LLM's tensors in and out",
        ),
        HotRoute(
            path=f"{base}/generate",
            surface=GENERATE,
            body=lambda: translation.GenerateWire,
            summary="Continue a text, or tokens, with TensorRT-LLM's names",
        ),
        HotRoute(
            path=f"{base}/generate_stream",
            surface=GENERATE_STREAM,
            body=lambda: translation.GenerateWire,
            summary="The same as server-sent events",
        ),
    )


ROUTES: Final[tuple[HotRoute, ...]] = (
    *_routes(f"/v2/models/{{model}}/versions/{VERSION}"),
    *_routes("/v2/models/{model}"),
)
"""The version comes first because a model's name may contain slashes."""
