"""The surface of moderation and its routes."""

from typing import TYPE_CHECKING, Final

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.openai.bodies import error_body
from strowger_gateway.gateway.surfaces.task_surface import TaskRenderer, TaskSurface
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.moderate import ModerateRequest
from strowger_gateway.schemas.tasks.task import TaskRequest

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.moderation import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.moderation.translation")


class ModerationSurface(TaskSurface):
    """See `strowger_gateway.gateway.surfaces.base.Surface`. chats: conversations are judged."""

    name = "moderation"
    task: Task | None = "moderate"

    def __init__(self, *, chats: bool = False) -> None:
        self._chats = chats

    def parse(self, inbound: Inbound) -> Request:
        if self._chats:
            return translation.parse_chat_moderation(inbound)
        return translation.parse_moderation(inbound)

    def task_renderer(self, request: TaskRequest, request_id: str) -> TaskRenderer:
        assert isinstance(request, ModerateRequest)
        return translation.ModerationRenderer(request, id=request_id)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


MODERATIONS: Final = ModerationSurface()
CHAT_MODERATIONS: Final = ModerationSurface(chats=True)

ROUTES: Final = (
    HotRoute(
        path="/v1/moderations",
        surface=MODERATIONS,
        body=lambda: translation.ModerationWire,
        summary="Find what is harmful in texts and images",
    ),
    HotRoute(
        path="/v1/chat/moderations",
        surface=CHAT_MODERATIONS,
        body=lambda: translation.ChatModerationWire,
        summary="Find what is harmful in the last message of conversations, as Mistral does",
    ),
)
