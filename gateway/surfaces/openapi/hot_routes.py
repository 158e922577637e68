"""Describe hot routes in /openapi.json, although requests never reach Litestar's handlers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import cast

import msgspec
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import (
    OpenAPIMediaType,
    Operation,
    Parameter,
    Reference,
    RequestBody,
    Schema,
)
from litestar.openapi.spec.enums import OpenAPIType
from litestar.types import ASGIApp

from strowger_gateway.gateway.surfaces.hot_route import HotRoute

_Json = Mapping[str, object]
_TYPES = {kind.value: kind for kind in OpenAPIType}


def documented(route: HotRoute, endpoint: ASGIApp) -> HTTPRouteHandler:
    """Return a Litestar POST handler that passes the request to `endpoint`.

    `gateway/surfaces/openapi` describes its request and response bodies.
    """
    path = route.path.replace("}", ":str}").replace("}:", "}/:")  # a segment has no more than that

    @post(path, status_code=200, summary=route.summary, name=path)
    async def handler() -> ASGIApp:
        return endpoint

    return handler


@cache
def operation(summary: str, body: type) -> type[Operation]:
    """Describe a route that reads its body itself, once. body: a Struct."""
    schema = _request_schema(body)

    @dataclass  # again: __post_init__ is only called by an __init__ generated in the same class
    class Documented(Operation):
        def __post_init__(self) -> None:
            self.summary = summary
            self.request_body = RequestBody(
                required=True, content={"application/json": OpenAPIMediaType(schema=schema)}
            )

    return Documented


@cache
def operation_with(summary: str, query: type) -> type[Operation]:
    """Describe a route that reads the parameters of its URL itself, once. query: a Struct."""
    schema = _request_schema(query)
    names = {one.encode_name for one in msgspec.structs.fields(query)}  # without its tag
    parameters = [
        Parameter(
            name=name,
            param_in="query",
            schema=one,
            description=one.description if isinstance(one, Schema) else None,
            required=name in (schema.required or ()),
        )
        for name, one in (schema.properties or {}).items()
        if name in names
    ]

    @dataclass
    class WithParameters(Operation):
        def __post_init__(self) -> None:
            self.summary, self.parameters = summary, [*parameters]

    return WithParameters


@cache
def _request_schema(body: type) -> Schema:
    """Return the schema of a type, built once. Several routes share it: do not modify it."""
    (schema,), components = msgspec.json.schema_components([body])
    return _schema(cast(_Json, schema), cast(Mapping[str, _Json], components), ())


def _schema(source: _Json, components: Mapping[str, _Json], inside: tuple[str, ...]) -> Schema:
    """Convert msgspec's JSON schema to Litestar's; resolve references, but not cycles."""
    if "$ref" in source:
        name = str(source["$ref"]).rpartition("/")[2]
        if name in inside:
            return Schema(title=name)
        return _schema(components[name], components, (*inside, name))

    def sub(value: object) -> Schema:
        return _schema(cast(_Json, value), components, inside)

    kind = source.get("type")
    properties = cast(_Json, source.get("properties", {}))
    options = cast(list[object], source.get("anyOf", []))
    items = source.get("items")
    return Schema(
        title=cast(str | None, source.get("title")),
        description=cast(str | None, source.get("description")),
        type=_TYPES[kind] if isinstance(kind, str) else None,
        properties={name: sub(value) for name, value in properties.items()} or None,
        required=cast(list[str] | None, source.get("required")) or None,
        items=sub(cast(object, items)) if isinstance(items, Mapping) else None,
        any_of=cast(list[Schema | Reference], [sub(option) for option in options]) or None,
        enum=cast(list[str] | None, source.get("enum")),
        default=source.get("default"),
        minimum=cast(float | None, source.get("minimum")),
        maximum=cast(float | None, source.get("maximum")),
        exclusive_minimum=cast(float | None, source.get("exclusiveMinimum")),
        exclusive_maximum=cast(float | None, source.get("exclusiveMaximum")),
    )
