"""The surfaces of scores, classes and pooling, and their routes."""

from typing import TYPE_CHECKING, Final

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.field_names import FieldNames
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.openai.bodies import error_body
from strowger_gateway.gateway.surfaces.openai.envelope import created_at
from strowger_gateway.gateway.surfaces.task_surface import TaskRenderer, TaskSurface
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.classify import ClassifyRequest
from strowger_gateway.schemas.tasks.pool import PoolRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest
from strowger_gateway.schemas.tasks.task import TaskRequest

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.pooling import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.pooling.translation")


_POOLING_NAMES: Final = FieldNames({"pooling_task": "task", "input.tokens": "input"})


class ScoreSurface(TaskSurface):
    """See `strowger_gateway.gateway.surfaces.base.Surface`."""

    name = "pooling"
    task: Task | None = "score"

    def parse(self, inbound: Inbound) -> Request:
        return translation.parse_score(inbound)

    def task_renderer(self, request: TaskRequest, request_id: str) -> TaskRenderer:
        assert isinstance(request, ScoreRequest)
        created = created_at(request_id)
        return translation.ScoreRenderer(request, id=request_id, created=created)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


class ClassifySurface(TaskSurface):
    """See `strowger_gateway.gateway.surfaces.base.Surface`."""

    name = "pooling"
    task: Task | None = "classify"

    def parse(self, inbound: Inbound) -> Request:
        return translation.parse_classify(inbound)

    def task_renderer(self, request: TaskRequest, request_id: str) -> TaskRenderer:
        assert isinstance(request, ClassifyRequest)
        created = created_at(request_id)
        return translation.ClassRenderer(request, id=request_id, created=created)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


class PoolSurface(TaskSurface):
    """See `strowger_gateway.gateway.surfaces.base.Surface`."""

    name = "pooling"
    task: Task | None = "pool"
    field_names = _POOLING_NAMES

    def parse(self, inbound: Inbound) -> Request:
        return translation.parse_pool(inbound)

    def task_renderer(self, request: TaskRequest, request_id: str) -> TaskRenderer:
        assert isinstance(request, PoolRequest)
        created = created_at(request_id)
        return translation.PoolRenderer(request, id=request_id, created=created)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


SCORE: Final = ScoreSurface()
CLASSIFY: Final = ClassifySurface()
POOL: Final = PoolSurface()

_SCORES: Final = "Score pairs of texts, as vLLM does"
_CLASSES: Final = "Classify texts, as vLLM and Jina do"
_POOLED: Final = "Return what a model computes of each input, as vLLM does"

ROUTES: Final = (
    HotRoute(
        path="/v1/score",
        surface=SCORE,
        body=lambda: translation.ScoreWire,
        summary=_SCORES,
    ),
    HotRoute(
        path="/score",
        surface=SCORE,
        body=lambda: translation.ScoreWire,
        summary=_SCORES,
        default_model=True,
    ),
    HotRoute(
        path="/v1/classify",
        surface=CLASSIFY,
        body=lambda: translation.ClassifyWire,
        summary=_CLASSES,
    ),
    HotRoute(
        path="/classify",
        surface=CLASSIFY,
        body=lambda: translation.ClassifyWire,
        summary=_CLASSES,
        default_model=True,
    ),
    HotRoute(
        path="/predict",
        surface=CLASSIFY,
        body=lambda: translation.ClassifyWire,
        summary="Classify texts, as Text Embeddings Inference does",
        default_model=True,
    ),
    HotRoute(
        path="/v1/pooling",
        surface=POOL,
        body=lambda: translation.PoolWire,
        summary=_POOLED,
    ),
    HotRoute(
        path="/pooling",
        surface=POOL,
        body=lambda: translation.PoolWire,
        summary=_POOLED,
        default_model=True,
    ),
)
