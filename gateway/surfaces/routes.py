"""Every route of the request path, and the request that a body sent to one of them makes."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from gateway.surfaces.base import Inbound
from gateway.surfaces.databricks.surface import ROUTES as DATABRICKS
from gateway.surfaces.decoding import UNREADABLE, check_utf8, invalid_request
from gateway.surfaces.hot_route import HotRoute, TemplatedPaths
from gateway.surfaces.kserve.surface import ROUTES as KSERVE
from gateway.surfaces.mindie.surface import ROUTES as MINDIE
from gateway.surfaces.openai.surface import ROUTES as OPENAI
from schemas.errors import InvalidRequest, RouteNotFound
from schemas.requests import Request

HOT_ROUTES: Final[tuple[HotRoute, ...]] = (
    *OPENAI,
    *MINDIE,
    *DATABRICKS,
    *KSERVE,
)
"""Every route of the request path; of two that match, the first."""

_BY_CONTENT: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "openai": (
        ("messages", "/v1/chat/completions"),
        ("prompt", "/v1/completions"),
        ("input", "/v1/embeddings"),
    ),
    "mindie": (("input_id", "/infer_token"),),
    "kserve": (
        ("inputs", "/v2/models/{model}/infer"),
        ("text_input", "/v2/models/{model}/generate"),
        ("input_ids", "/v2/models/{model}/generate"),
    ),
    "databricks": (
        ("messages", "/serving-endpoints/chat/completions"),
        ("prompt", "/serving-endpoints/completions"),
        ("input", "/serving-endpoints/embeddings"),
    ),
}
"""By surface: a field that tells its requests apart, and where those go."""

SURFACES: Final = tuple(_BY_CONTENT)
_ANYTHING: Final[dict[str, str]] = {
    "messages": "openai",
    "prompt": "openai",
    "input": "openai",
    "input_id": "mindie",
    "inputs": "kserve",
    "text_input": "kserve",
    "input_ids": "kserve",
}
"""Where nobody says the surface: whose a body with this field is."""

_ROUTES: Final = {route.path: route for route in HOT_ROUTES}
_PATHS: Final = TemplatedPaths(HOT_ROUTES)
_fields: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


class ParsedRequest(Struct, frozen=True, kw_only=True):
    """A request, and the path that it came on or would come on."""

    path: str
    surface: str
    request: Request


def parse_any(
    body: bytes,
    *,
    path: str = "",
    model: str = "",
    default_model: str = "",
    max_choices: int = 256,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> ParsedRequest:
    """What `body` asks for, parsed as the request path does.

    path:          of a route, a surface's name, or "": by what stands in the body.
    model:         for paths that name one and were not given whole.
    default_model: who answers where nothing names a model.
    Raises RouteNotFound for a path of no route; InvalidRequest as the surface does.
    """
    place = path if path.startswith("/") else _by_content(body, path, model)
    written, named = (place, "") if place in _ROUTES else _PATHS.find(place)
    route = _ROUTES.get(written)
    if route is None:
        raise RouteNotFound(f"no request is taken at {place}")
    inbound = Inbound(
        body=body,
        max_choices=max_choices,
        model=named or ((model or default_model) if route.default_model else ""),
        headers=headers,
    )
    return ParsedRequest(
        path=place, surface=route.surface.name, request=route.surface.parse(inbound)
    )


def _by_content(body: bytes, surface: str, model: str) -> str:
    try:
        check_utf8(body)
        found = _fields.decode(body)
    except UNREADABLE as exc:
        raise invalid_request(exc, "", {}) from exc
    if not surface:
        surface = next((owner for field, owner in _ANYTHING.items() if field in found), "")
    if surface not in _BY_CONTENT:
        names = ", ".join(SURFACES)
        raise RouteNotFound(
            f"there is no surface {surface!r}; name a path, or one of {names}"
            if surface
            else f"the body does not tell whose it is; name a path, or one of {names}"
        )
    for field, path in _BY_CONTENT[surface]:
        if field in found:
            if "{model}" in path and not model:
                raise InvalidRequest(
                    f"model: {path} names the model; give one, or the whole path", param="model"
                )
            return path.replace("{model}", model)
    raise RouteNotFound(f"the body fits none of {surface}'s routes; name the path")
