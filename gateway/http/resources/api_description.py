"""The API description as JSON and as a page; `server.docs: false` disables both."""

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.schema.auth import Auth
from strowger_gateway.gateway.surfaces.openapi.page import HEADERS, STYLE, page_of
from strowger_gateway.schemas.errors import RouteNotFound

_Request = Request[object, object, State]


def description(gateway: Gateway) -> list[ControllerRouterHandler]:
    made: dict[Auth, tuple[bytes, bytes]] = {}

    def described(request: _Request) -> tuple[bytes, bytes]:
        """Return JSON and page. Built once per authentication setting."""
        auth = gateway.runtime.config.auth
        known = Auth(mode=auth.mode, metrics=auth.metrics)
        if known not in made:
            # Late, because it imports every surface, and few gateways are asked for it.
            from strowger_gateway.gateway.surfaces.openapi.document import completed

            document = completed(request.app.openapi_schema.to_schema(), known)
            made[known] = msgspec.json.encode(document), page_of(document).encode()
        return made[known]

    def check(request: _Request) -> None:
        if not gateway.runtime.config.server.docs:
            raise RouteNotFound(f"no route {request.method} {request.scope['path']}")

    @get("/openapi.json", media_type="application/json", include_in_schema=False)
    async def openapi(request: _Request) -> bytes:
        check(request)
        return described(request)[0]

    @get("/docs", include_in_schema=False)
    async def docs(request: _Request) -> Response[bytes]:
        check(request)
        return Response(described(request)[1], media_type="text/html", headers=HEADERS)

    @get("/docs/page.css", include_in_schema=False)
    async def style(request: _Request) -> Response[bytes]:
        check(request)
        return Response(STYLE.encode(), media_type="text/css", headers=HEADERS)

    return [openapi, docs, style]
