"""All routes of the request path, and parsing a body as its route would."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.gateway.surfaces.anthropic.surface import ROUTES as ANTHROPIC
from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.databricks.surface import ROUTES as DATABRICKS
from strowger_gateway.gateway.surfaces.decoding import UNREADABLE, check_utf8, invalid_request
from strowger_gateway.gateway.surfaces.gemini.surface import ROUTES as GEMINI
from strowger_gateway.gateway.surfaces.hot_route import HotRoute, TemplatedPaths
from strowger_gateway.gateway.surfaces.kserve.surface import ROUTES as KSERVE
from strowger_gateway.gateway.surfaces.mindie.surface import ROUTES as MINDIE
from strowger_gateway.gateway.surfaces.moderation.surface import ROUTES as MODERATION
from strowger_gateway.gateway.surfaces.ollama.surface import ROUTES as OLLAMA
from strowger_gateway.gateway.surfaces.openai.surface import ROUTES as OPENAI
from strowger_gateway.gateway.surfaces.pooling.surface import ROUTES as POOLING
from strowger_gateway.gateway.surfaces.rerank.surface import ROUTES as RERANK
from strowger_gateway.gateway.surfaces.responses.surface import ROUTES as RESPONSES
from strowger_gateway.schemas.errors import InvalidRequest, RouteNotFound
from strowger_gateway.schemas.requests import Request

HOT_ROUTES: Final[tuple[HotRoute, ...]] = (
    *OPENAI,
    *ANTHROPIC,
    *RESPONSES,
    *MINDIE,
    *DATABRICKS,
    *KSERVE,
    *OLLAMA,
    *GEMINI,
    *RERANK,
    *POOLING,
    *MODERATION,
)
"""All routes of the request path; the first match wins."""

_BY_CONTENT: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "openai": (
        ("messages", "/v1/chat/completions"),
        ("prompt", "/v1/completions"),
        ("input", "/v1/embeddings"),
    ),
    "anthropic": (("messages", "/v1/messages"),),
    "responses": (("input", "/v1/responses"),),
    "gemini": (
        ("contents", "/v1beta/models/{model}:generateContent"),
        ("content", "/v1beta/models/{model}:embedContent"),
        ("requests", "/v1beta/models/{model}:batchEmbedContents"),
    ),
    "mindie": (("input_id", "/infer_token"),),
    "kserve": (
        ("inputs", "/v2/models/{model}/infer"),
        ("text_input", "/v2/models/{model}/generate"),
        ("input_ids", "/v2/models/{model}/generate"),
    ),
    "rerank": (("documents", "/v1/rerank"), ("texts", "/rerank")),
    "moderation": (("input", "/v1/moderations"),),
    "pooling": (
        ("text_1", "/v1/score"),
        ("data_1", "/v1/score"),
        ("queries", "/v1/score"),
        ("task", "/v1/pooling"),
        ("messages", "/v1/pooling"),
        ("input", "/v1/classify"),
        ("inputs", "/predict"),
    ),
    "databricks": (
        ("messages", "/serving-endpoints/chat/completions"),
        ("prompt", "/serving-endpoints/completions"),
        ("input", "/serving-endpoints/embeddings"),
    ),
    "ollama": (
        ("messages", "/api/chat"),
        ("prompt", "/api/generate"),
        ("input", "/api/embed"),
    ),
}
"""By surface: a field that identifies its requests, and their path."""

SURFACES: Final = tuple(_BY_CONTENT)
_ANYTHING: Final[dict[str, str]] = {
    "query": "rerank",
    "text_1": "pooling",
    "queries": "pooling",
    "instructions": "responses",
    "max_output_tokens": "responses",
    "system": "anthropic",
    "stop_sequences": "anthropic",
    "thinking": "anthropic",
    "output_config": "anthropic",
    "contents": "gemini",
    "messages": "openai",
    "prompt": "openai",
    "input": "openai",
    "input_id": "mindie",
    "inputs": "kserve",
    "text_input": "kserve",
    "input_ids": "kserve",
}
"""If no surface is given: the surface of a body with this field."""

_ROUTES: Final = {route.path: route for route in HOT_ROUTES}
_PATHS: Final = TemplatedPaths(HOT_ROUTES)
_fields: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


class ParsedRequest(Struct, frozen=True, kw_only=True):
    """A request, and its path. counts: it only counts tokens."""

    path: str
    surface: str
    request: Request
    counts: bool = False


def parse_any(
    body: bytes,
    *,
    path: str = "",
    model: str = "",
    default_model: str = "",
    max_choices: int = 256,
    headers: Iterable[tuple[bytes, bytes]] = (),
    stores: bool = False,
    prompts: bool = False,
) -> ParsedRequest:
    """Parse `body` as the request path does.

    path:          a route's path, a surface's name, or "" to decide by the body's fields.
    model:         for paths that contain a model name, if the path is not given in full.
    default_model: used if nothing names a model.
    stores:        answers are stored; a request that continues one is EarlierItemsNeeded.
    prompts:       there are prompts: see `Inbound`.
    Raises RouteNotFound for an unknown path; InvalidRequest as the surface does.
    """
    place = path if path.startswith("/") else _by_content(body, path, model)
    written, named = (place, "") if place in _ROUTES else _PATHS.find(place)
    route = _ROUTES.get(written)
    if route is None:
        raise RouteNotFound(f"unknown endpoint {place}")
    inbound = Inbound(
        body=body,
        max_choices=max_choices,
        model=named or ((model or default_model) if route.default_model else ""),
        headers=headers,
        stores=stores and route.stores,
        prompts=prompts,
    )
    return ParsedRequest(
        path=place,
        surface=route.surface.name,
        request=route.surface.parse(inbound),
        counts=route.counts,
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
            f"unknown surface {surface!r}; use a path, or one of {names}"
            if surface
            else f"the body's fields match no surface; use a path, or one of {names}"
        )
    for field, path in _BY_CONTENT[surface]:
        if field in found:
            if "{model}" in path and not model:
                raise InvalidRequest(
                    f"model: {path} contains the model's name; set the model, or use the full path",
                    param="model",
                )
            return path.replace("{model}", model)
    raise RouteNotFound(f"the body matches no route of {surface}; use a path")
