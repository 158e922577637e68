"""Complete the framework's API description with request and response bodies."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Final, cast

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.auth import Auth
from strowger_gateway.gateway.surfaces.base import JSON
from strowger_gateway.gateway.surfaces.error_envelopes import error_struct
from strowger_gateway.gateway.surfaces.ollama.lines import NDJSON
from strowger_gateway.gateway.surfaces.openapi.request_parts import PARTS
from strowger_gateway.gateway.surfaces.openapi.route_bodies import (
    EVENTS,
    EVERY,
    OCTETS,
    ROUTES,
    TEXT,
    RouteDescription,
    operators,
)
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES

Tree = MutableMapping[str, object]

_MODEL: Final = "/v2/models/{path}"
"""One handler of the framework serves all GET routes of a model."""

ERROR_PATHS: Final = (
    *("/v1", "/v1/messages", "/v1beta", "/v2", "/infer_token", "/serving-endpoints", "/api/chat"),
    "/v1/rerank",
)
"""One path for each format of errors."""

_REF: Final = "#/components/schemas/{name}"
_SAYS: Final[Mapping[int, str]] = {
    200: "Success",
    202: "Accepted, and not in the store yet",
    400: "Invalid request, a field that no backend supports, or rejected by the backend",
    401: "Missing or unknown key",
    403: "The key lacks permission, or the host or the calling web page is not allowed",
    404: "Unknown model or resource",
    405: "Method not allowed",
    408: "The request body did not arrive in time",
    409: "The name is taken, or the key can only be changed in the configuration file",
    413: "The request body is too large",
    415: "Unsupported content-type or content-encoding",
    429: "A limit of the gateway, or every backend is rate-limited",
    500: "Internal error, a bug; the gateway's log has the request id",
    502: "The last backend that was tried failed or is unreachable",
    503: "The gateway is temporarily unable to serve the request",
    529: "No backend is available, or the backend is overloaded",
    504: "Deadline exceeded",
}
_HEADERS: Final[Mapping[int, tuple[str, ...]]] = {
    401: ("www-authenticate",),
    405: ("allow",),
    429: ("retry-after",),
    503: ("retry-after",),
}
_ALWAYS: Final = ("x-request-id",)
_UPSTREAM: Final = "Another 4xx returned by the backend"

_KEYS: Final[Mapping[str, Tree]] = {
    "client_key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of auth.keys, or an issued one",
    },
    "client_key_header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "client_key_azure": {"type": "apiKey", "in": "header", "name": "api-key"},
    "client_key_google": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
    "admin_session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-strowger_admin",
        "description": "the session of a browser, with its role; without TLS: strowger_admin",
    },
    "metrics_key": {
        "type": "http",
        "scheme": "bearer",
        "description": "auth.metrics_key, for /metrics only",
    },
}
_CLIENT: Final = ("client_key", "client_key_header", "client_key_azure", "client_key_google")


def completed(document: Tree, auth: Auth) -> Tree:
    """Add bodies, responses, errors and keys to `document`, in place. auth: as in force."""
    paths = _tree(document["paths"])
    _spell_out(paths)
    paths = {path.replace("}/:", "}:"): item for path, item in paths.items()}
    document["paths"] = paths = _ordered(paths)
    components = _tree(document.setdefault("components", {}))
    schemes = _tree(components.setdefault("securitySchemes", {}))
    schemes.update(_KEYS)
    refs = _schemas(_tree(components.setdefault("schemas", {})))
    bodies = {route.path: route for route in HOT_ROUTES}
    for path, item in paths.items():
        for method, raw in _tree(item).items():
            operation = _tree(raw)
            place = f"{method.upper()} {path}"
            known = ROUTES[place] if place in ROUTES else operators(method, path)
            operation["responses"] = _responses(path, operation, known, refs)
            operation["security"] = _security(known, auth)
            if path in bodies and method == "post":
                route = bodies[path]
                operation["requestBody"] = _body(refs[route.body()], route.surface.accepts)
    return document


def _spell_out(paths: Tree) -> None:
    template = _tree(paths.pop(_MODEL))
    for place in [one for one in ROUTES if one.startswith("GET /v2/models/")]:
        path = place.partition(" ")[2]
        operation = dict(_tree(template["get"]))
        name = path.replace("/", " ").replace("{model}", "Model").title().replace(" ", "")
        operation["operationId"] = name
        operation["parameters"] = [_model_parameter()]
        item = _tree(paths.setdefault(path, {}))
        item["get"] = operation


def _ordered(paths: Tree) -> Tree:
    """Model APIs as their surfaces list them, then all others by name.

    The framework keeps the paths of a handler in a set, whose order differs between processes.
    """
    first = [route.path for route in HOT_ROUTES]
    return {path: paths[path] for path in (*first, *sorted(paths.keys() - set(first)))}


def _model_parameter() -> Tree:
    return {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}


def _schemas(into: Tree) -> Mapping[type[Struct], Tree]:
    """Put the schemas of all structs `into` the components; return a reference to each."""
    structs = [
        *(answer for described in ROUTES.values() for answer in described.answers),
        *(one for described in ROUTES.values() for one in described.lists),
        *(route.body() for route in HOT_ROUTES),
        *(error_struct(path) for path in ERROR_PATHS),
    ]
    kinds = list(dict.fromkeys(structs))
    parts = [(kind, name, part) for kind in kinds for name, part in _parts(kind)]
    found, components = msgspec.json.schema_components(
        [*kinds, *(part for _, _, part in parts)], ref_template=_REF
    )
    into.update({name: _said(_tree(schema)) for name, schema in components.items()})
    refs = dict(zip(kinds, (_tree(one) for one in found[: len(kinds)]), strict=True))
    for (kind, name, _), schema in zip(parts, found[len(kinds) :], strict=True):
        _tree(_component(into, refs[kind])["properties"])[name] = schema
    for route in HOT_ROUTES:  # whether a field unknown to us is refused depends on the backends
        _component(into, refs[route.body()]).pop("additionalProperties", None)
    return refs


def _component(components: Tree, reference: Tree) -> Tree:
    return _tree(components.get(str(reference.get("$ref", "")).rpartition("/")[2], {}))


def _parts(kind: type[Struct]) -> Iterator[tuple[str, object]]:
    """Yield the fields of a request that its surface reads in parts, with their types."""
    for body, fields in PARTS.items():
        if issubclass(kind, body):
            yield from fields.items()


def _said(schema: Tree) -> Tree:
    """Remove the indentation that docstrings have in the source."""
    if isinstance(text := schema.get("description"), str):
        schema["description"] = "\n".join(line.strip() for line in text.splitlines())
    return schema


def _body(schema: Tree, accepts: tuple[bytes, ...]) -> Tree:
    content: Tree = {JSON: {"schema": schema}}
    if OCTETS.encode() in accepts:  # other types are JSON under another name
        content[OCTETS] = {"schema": {"type": "string", "format": "binary"}}
    return {"required": True, "content": content}


def _responses(
    path: str, operation: Tree, known: RouteDescription, refs: Mapping[type[Struct], Tree]
) -> Tree:
    own = _tree(_tree(operation["responses"]).get("200", {}))
    content = _content(known, refs) if known.key != "admin" else _tree(own.get("content", {}))
    responses: Tree = {"200": _response(200, content)}
    for status in known.also:
        responses[str(status)] = _response(status, content)
    error: Tree = {JSON: {"schema": refs[error_struct(path)]}}
    for status in sorted({*EVERY, *known.statuses}):
        responses[str(status)] = _response(status, error)
    if 504 in known.statuses:
        responses["4XX"] = {**_response(400, error), "description": _UPSTREAM}
    return responses


def _list_of(items: Tree) -> Tree:
    return {"type": "array", "items": items}


def _content(known: RouteDescription, refs: Mapping[type[Struct], Tree]) -> Tree:
    content: Tree = {}
    if known.answers:
        schemas: list[Tree] = [refs[answer] for answer in known.answers]
        lists = [_list_of(refs[one]) for one in known.lists]
        schemas += lists
        if known.nested:
            schemas += [_list_of(one) for one in lists]
        schema: Tree = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        content[JSON] = {"schema": {"type": "array", "items": schema} if known.listed else schema}
    for media in known.media:
        content[media] = {"schema": dict(_MEDIA[media])}
    return content


_MEDIA: Final[Mapping[str, Mapping[str, object]]] = {
    # Without a type: tools disagree on whether a schema describes the text or each event.
    EVENTS: {"description": "A stream of server-sent events, if the request asks for one"},
    NDJSON: {"description": "A stream of JSON objects, one per line"},
    OCTETS: {
        "type": "string",
        "format": "binary",
        "description": "JSON, followed by the tensors that were requested as bytes",
    },
    TEXT: {"type": "string", "description": "Prometheus' text format"},
}


def _response(status: int, content: Tree) -> Tree:
    names = (*_ALWAYS, *_HEADERS.get(status, ()))
    response: Tree = {
        "description": _SAYS[status],
        "headers": {name: {"schema": {"type": "string"}} for name in names},
    }
    if content:
        response["content"] = content
    return response


def _security(known: RouteDescription, auth: Auth) -> list[Mapping[str, list[str]]]:
    """Any entry is sufficient; an empty list requires no key."""
    return [{name: []} for name in _accepted(known.key, auth)]


def _accepted(key: str, auth: Auth) -> Iterator[str]:
    if key == "admin":
        yield from ("admin_key", "admin_session")
    elif key == "client" and auth.mode == "keys":
        yield from _CLIENT
    elif key == "metrics" and auth.metrics != "open" and auth.mode == "keys":
        yield from ("admin_key", "metrics_key")
        if auth.metrics == "client":
            yield from _CLIENT


def _tree(value: object) -> Tree:
    return cast(Tree, value)
