"""The API's description, for programs and for people; `server.docs: false` leaves both out."""

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler

from gateway.documentation_page import HEADERS, STYLE, page_of
from gateway.state import Gateway
from schemas.errors import RouteNotFound

_Request = Request[object, object, State]


def description(gateway: Gateway) -> list[ControllerRouterHandler]:
    made: dict[str, bytes] = {}

    def check(request: _Request) -> None:
        if not gateway.runtime.config.server.docs:
            raise RouteNotFound(f"there is nothing at {request.scope['path']}")

    @get("/openapi.json", media_type="application/json", include_in_schema=False)
    async def openapi(request: _Request) -> bytes:
        check(request)
        if "json" not in made:
            made["json"] = msgspec.json.encode(request.app.openapi_schema.to_schema())
        return made["json"]

    @get("/docs", include_in_schema=False)
    async def docs(request: _Request) -> Response[bytes]:
        check(request)
        if "page" not in made:
            made["page"] = page_of(request.app.openapi_schema.to_schema()).encode()
        return Response(made["page"], media_type="text/html", headers=HEADERS)

    @get("/docs/page.css", include_in_schema=False)
    async def style(request: _Request) -> Response[bytes]:
        check(request)
        return Response(STYLE.encode(), media_type="text/css", headers=HEADERS)

    return [openapi, docs, style]
