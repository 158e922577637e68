"""The routes of parts under /admin, with the rules of all others: roles, origin, audit, errors."""

from collections.abc import Callable
from typing import Any

from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.console.admin.parameters import TAKEN
from strowger_gateway.gateway.console.admin.part_calls import (
    call_with_body,
    call_with_query,
    change,
    names_of,
    routes_of,
)
from strowger_gateway.gateway.parts.console import AdminRoute
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation, operation_with

_Request = Request[object, object, State]
_LARGEST = 262_144
_UNCACHED = {"cache-control": "no-store"}


def part_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    """Build a handler for each route of each part."""
    return [
        _reading(current, route) if route.method == "GET" else _changing(current, route)
        for route in routes_of(current())
    ]


def _reading(current: Callable[[], Gateway], route: AdminRoute[Any]) -> HTTPRouteHandler:
    async def answer(request: _Request) -> Response[Any]:
        call = call_with_query(current(), request, route.takes)
        return Response(await route.answer(call), headers=_UNCACHED)

    answer.__annotations__["return"] = Response[route.returns]
    return get(
        route.path,
        role=route.role,
        security=[{SCHEME: []}],
        operation_class=operation_with(route.summary, route.takes),
        opt={TAKEN: names_of(route.takes)},
    )(answer)


def _changing(current: Callable[[], Gateway], route: AdminRoute[Any]) -> HTTPRouteHandler:
    async def answer(request: _Request) -> Response[Any]:
        gateway = current()
        call = await call_with_body(gateway, request, route.takes)
        found = await change(gateway, request, route, call)
        return Response(found, status_code=200, headers=_UNCACHED)

    answer.__annotations__["return"] = Response[route.returns]
    return post(
        route.path,
        status_code=200,
        request_max_body_size=_LARGEST,
        role=route.role,
        security=[{SCHEME: []}],
        operation_class=operation(route.summary, route.takes),
    )(answer)
