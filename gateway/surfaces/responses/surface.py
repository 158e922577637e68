"""The Responses surface and its routes."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, overload

from strowger_gateway.gateway.surfaces.base import (
    EmbeddingsRenderer,
    Inbound,
    Renderer,
)
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.json_surface import JsonSurface
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.openai.bodies import error_body
from strowger_gateway.gateway.surfaces.openai.surface import created_at
from strowger_gateway.gateway.surfaces.responses.field_names import NAMES
from strowger_gateway.gateway.surfaces.responses.frames import ERROR
from strowger_gateway.gateway.surfaces.sse import AGENTS_COMMIT_S
from strowger_gateway.schemas.errors import GatewayError, UpstreamRefused
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.responses import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.responses.translation")

_AI_SDK: Final = b"ai-sdk"
"""In the user agent of Vercel's AI SDK, which returns ids of items unless `store` is false: as
`ai-sdk/openai/3.0.141`, and since its version 7 `ai-sdk-provider-utils/5.0.81`."""

__all__ = ("RESPONSES", "ROUTES", "ResponsesSurface")


class ResponsesSurface(JsonSurface):
    """Conversations as clients of the Responses API write them; see
    `strowger_gateway.gateway.surfaces.base.Surface`.

    clock: returns Unix seconds; an answer's `completed_at` is read from it.
    """

    name = "responses"
    task: Task = "chat"
    error_event = ERROR
    commit_after_s = AGENTS_COMMIT_S
    field_names = NAMES
    late = True

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.plain = self._plain

    def parse(self, inbound: Inbound) -> Request:
        return self._parse(inbound)

    def _parse(self, inbound: Inbound, *, window: bool = False, counts: bool = False) -> Request:
        return translation.parse_response(
            inbound.body,
            model=inbound.model,
            stores=inbound.stores,
            prompts=inbound.prompts,
            window=window,
            counts=counts,
            refers=any(
                name == b"user-agent" and _AI_SDK in value for name, value in inbound.headers
            ),
        )

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        if not isinstance(request, ChatRequest):
            raise GatewayError("the Responses API has only conversations")
        return translation.ResponsesRenderer(
            request, request_id=request_id, created=created_at(request_id), clock=self._clock
        )

    def _plain(self, answer: PlainAnswer, request: ChatRequest, request_id: str) -> bytes:
        return translation.plain_response(answer, request, request_id, clock=self._clock)

    def status_of(self, exc: GatewayError) -> int:
        return 400 if isinstance(exc, UpstreamRefused) else exc.status  # codex repeats all others

    def counted(self, tokens: int) -> bytes:
        return b'{"object":"response.input_tokens","input_tokens":%d}' % tokens

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


class TokensSurface(ResponsesSurface):
    """The route that counts."""

    def parse(self, inbound: Inbound) -> Request:
        return self._parse(inbound, counts=True)


class WindowSurface(ResponsesSurface):
    """The route that returns the items with which a long conversation goes on."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self.plain = None

    def parse(self, inbound: Inbound) -> Request:
        return self._parse(inbound, window=True)

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        if not isinstance(request, ChatRequest):
            raise GatewayError("the Responses API has only conversations")
        created = created_at(request_id)
        return translation.WindowRenderer(request, request_id=request_id, created=created)


RESPONSES: Final = ResponsesSurface()
TOKENS: Final = TokensSurface()
WINDOW: Final = WindowSurface()

ROUTES: Final = (
    HotRoute(
        path="/v1/responses",
        surface=RESPONSES,
        body=lambda: translation.ResponsesWire,
        summary="Answer a conversation, by OpenAI's Responses API",
        stores=True,
        compacts=True,
    ),
    HotRoute(
        path="/v1/responses/compact",
        surface=WINDOW,
        body=lambda: translation.ResponsesWire,
        summary="Replace a long conversation by a summary, by OpenAI's Responses API",
        stores=True,
        compacts=True,
    ),
    HotRoute(
        path="/v1/responses/input_tokens",
        surface=TOKENS,
        body=lambda: translation.ResponsesWire,
        summary="Count the tokens of a conversation, by OpenAI's Responses API",
        counts=True,
        stores=True,
    ),
)
