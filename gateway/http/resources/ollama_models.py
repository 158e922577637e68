"""Ollama's routes about models: its list, one of them, those that are loaded, and pulling.

A pull of a model that is served succeeds at once, because clients pull before they use a model.
Models are defined in the configuration: nothing is created, copied, deleted, pushed or uploaded
(`unserved_apis.py`).
"""

import msgspec
from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler
from msgspec import Struct

from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.http.resources.kserve_models import why_not
from strowger_gateway.gateway.http.resources.model_cards import model_card
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.surfaces.decoding import UNREADABLE, invalid_request
from strowger_gateway.gateway.surfaces.model_card import ModelCard
from strowger_gateway.gateway.surfaces.ollama.lines import NDJSON
from strowger_gateway.gateway.surfaces.ollama.models import (
    Capability,
    info_body,
    list_body,
    pulled_body,
    running_body,
    version_body,
)
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation
from strowger_gateway.schemas.errors import InvalidRequest, ModelNotFound

_Request = Request[object, object, State]
_JSON = "application/json"
_MOST_BYTES = 65_536


class NamedModel(Struct, frozen=True, kw_only=True):
    """model: its name; older clients write `name`. stream: of a pull."""

    model: str | None = None
    name: str | None = None
    stream: bool | None = None
    verbose: bool | None = None
    insecure: bool | None = None


_named = msgspec.json.Decoder(NamedModel)
_ALLOWED = {"model": "a string", "name": "a string", "stream": "true or false"}


def ollama_models(gateway: Gateway) -> list[ControllerRouterHandler]:
    async def caller(request: _Request) -> Caller:
        return await gateway.runtime.access.keyring.caller(request.scope)

    @get("/api/version", media_type=_JSON, summary="The version of Ollama's API")
    async def version() -> bytes:
        return version_body()

    @get("/api/tags", media_type=_JSON, summary="The models that this key may use, as Ollama's")
    async def tags(request: _Request) -> bytes:
        names = gateway.runtime.table.names((await caller(request)).may_use)
        return list_body(names, gateway.processes.status.started_at)

    @get("/api/ps", media_type=_JSON, summary="The models that are available now, as Ollama's")
    async def running(request: _Request) -> bytes:
        table = gateway.runtime.table
        names = table.names((await caller(request)).may_use)
        ready = [one for one in names if not why_not(gateway, table.find(one))]
        return running_body([_card(gateway, one) for one in ready])

    return [version, tags, running, *_of_one_model(gateway)]


def _of_one_model(gateway: Gateway) -> list[ControllerRouterHandler]:
    async def named(request: _Request) -> tuple[str, NamedModel]:
        """Return the name of a model that the key may use, as it is listed."""
        runtime = gateway.runtime
        caller = await runtime.access.keyring.caller(request.scope)
        body = _read(await request.body())
        name = runtime.table.tagged(body.model or body.name or "")
        runtime.table.find(name, caller.may_use)
        if name.endswith("*"):
            raise ModelNotFound(f"model: model {name!r} not found", param="model")
        return name, body

    @post(
        "/api/show",
        status_code=200,
        media_type=_JSON,
        request_max_body_size=_MOST_BYTES,
        operation_class=operation("One model, as Ollama's", NamedModel),
    )
    async def show(request: _Request) -> bytes:
        name, _ = await named(request)
        card, route = _card(gateway, name), gateway.runtime.table.find(name)
        started = gateway.processes.status.started_at
        return info_body(card, capabilities(card, route), started)

    @post(
        "/api/pull",
        status_code=200,
        media_type=_JSON,
        request_max_body_size=_MOST_BYTES,
        operation_class=operation(
            "Succeeds for a model that is served, and changes nothing", NamedModel
        ),
    )
    async def pull(request: _Request) -> Response[bytes]:
        _, body = await named(request)
        stream = body.stream is not False
        return Response(pulled_body(stream=stream), media_type=NDJSON if stream else _JSON)

    return [show, pull]


def _card(gateway: Gateway, name: str) -> ModelCard:
    runtime = gateway.runtime
    return model_card(runtime, runtime.table.find(name), name)


def capabilities(card: ModelCard, route: Route) -> tuple[Capability, ...]:
    """Return what a model can do, by Ollama's names.

    What is known of the model decides. Of a model that nothing is known of, it is what its
    backends' APIs have, but for images and reasoning, which most models lack.
    """
    tasks = [one.supports for one in route.backends]
    if _embeds(card):
        return ("embedding",)
    found: list[Capability] = []
    chat = any(offered(one, "chat") is not None for one in tasks)
    if chat or any(offered(one, "completion") is not None for one in tasks):
        found.append("completion")
    if chat and (card.tools or (card.tools is None and "tools" in card.parameters)):
        found.append("tools")
    if any("suffix" in (offered(one, "completion") or ()) for one in tasks):
        found.append("insert")
    if card.input is not None and "image" in card.input:
        found.append("vision")
    if card.reasoning:
        found.append("thinking")
    if not found and any(offered(one, "embeddings") is not None for one in tasks):
        found.append("embedding")
    return tuple(found)


def _embeds(card: ModelCard) -> bool:
    """Whether it is known, or its name says, that the model only embeds."""
    if card.output is not None:
        return card.output == ("embeddings",)
    return "embed" in card.name.lower()


def _read(body: bytes) -> NamedModel:
    try:
        found = _named.decode(body)
    except UNREADABLE as exc:
        raise invalid_request(exc, "", _ALLOWED) from exc
    if not (found.model or found.name):
        raise InvalidRequest("model is required", param="model")
    return found
