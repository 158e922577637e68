"""The surface of reranking and its routes. The body decides whose dialect it is."""

from typing import TYPE_CHECKING, Final

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.openai.bodies import voyage_error
from strowger_gateway.gateway.surfaces.rerank.errors import error_body
from strowger_gateway.gateway.surfaces.task_surface import TaskRenderer, TaskSurface
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.rerank import RerankRequest
from strowger_gateway.schemas.tasks.task import TaskRequest

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.rerank import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.rerank.translation")


class RerankSurface(TaskSurface):
    """See `strowger_gateway.gateway.surfaces.base.Surface`. second: Cohere's version 2."""

    name = "rerank"
    task: Task | None = "rerank"

    def __init__(self, *, second: bool = False) -> None:
        self._second = second

    def parse(self, inbound: Inbound) -> Request:
        try:
            return translation.parse_rerank(inbound, second=self._second)
        except GatewayError as exc:
            exc.dialect = translation.dialect_of(inbound.body)
            raise

    def task_renderer(self, request: TaskRequest, request_id: str) -> TaskRenderer:
        assert isinstance(request, RerankRequest)
        return translation.RankingRenderer(request, id=request_id)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)

    def error_about(self, exc: GatewayError, request: Request | None) -> bytes:
        """See Surface."""
        dialect = request.dialect if isinstance(request, RerankRequest) else exc.dialect
        return voyage_error(exc) if dialect == "voyage" else error_body(exc)


RERANK: Final = RerankSurface()
RERANK_2: Final = RerankSurface(second=True)

ROUTES: Final = (
    HotRoute(
        path="/v1/rerank",
        surface=RERANK,
        body=lambda: translation.RerankWire,
        summary="Rank documents by how well they answer a query, as Jina, Voyage, vLLM and "
        "Cohere's version 1 do",
    ),
    HotRoute(
        path="/v2/rerank",
        surface=RERANK_2,
        body=lambda: translation.RerankWire,
        summary="Rank documents by how well they answer a query, as Cohere does",
    ),
    HotRoute(
        path="/rerank",
        surface=RERANK,
        body=lambda: translation.RerankWire,
        summary="Rank documents by how well they answer a query, as Text Embeddings Inference does",
        default_model=True,
    ),
)
