"""Server metadata, models and their state in the formats of KServe v2 and Triton.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol; a server or
model that is not ready answers 400, as Triton does, and an unknown model 404.
"""

from importlib.metadata import PackageNotFoundError, version

import msgspec
from litestar import Request, get, post
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.route import Backend, Route
from strowger_gateway.gateway.surfaces.decoding import UNREADABLE
from strowger_gateway.gateway.surfaces.kserve.bodies import (
    VERSION,
    IndexEntry,
    config_body,
    index_body,
    model_body,
    server_body,
)
from strowger_gateway.schemas.errors import InvalidRequest, RouteNotFound

_Request = Request[object, object, State]
_JSON = "application/json"
_MOST_BYTES = 65_536
_DISTRIBUTION = "strowger-gateway"


class _Index(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """ready: list only models that are available now."""

    ready: bool = False


class _ModelPath(Struct, frozen=True, kw_only=True):
    """what: `ready`, `config`, `stats`, or "" for the model itself."""

    model: str
    what: str = ""


def kserve_models(gateway: Gateway) -> list[ControllerRouterHandler]:
    @get("/v2", media_type=_JSON, summary="Server metadata, in KServe's format")
    async def server() -> bytes:
        return server_body(_version())

    @get("/v2/health/live", media_type=_JSON, summary="The process is alive")
    async def live() -> bytes:
        return b""

    @get("/v2/health/ready", media_type=_JSON, summary="200 when models are available, else 400")
    async def ready() -> bytes:
        if gateway.admission.draining or not gateway.runtime.ready:
            raise InvalidRequest("the server is not ready")
        return b""

    @get("/v2/models/{path:path}", media_type=_JSON, summary="One model's tensors, or its state")
    async def model(request: _Request, path: FromPath[str]) -> bytes:
        caller = await gateway.runtime.access.keyring.caller(request.scope)
        wanted = _split_path(path.removeprefix("/"))
        if wanted.what == "stats":
            raise RouteNotFound("statistics of models are not served here; GET /metrics has them")
        route = gateway.runtime.table.find(wanted.model, caller.may_use)
        if wanted.what == "config":
            return config_body(wanted.model)
        if wanted.what == "":
            return model_body(wanted.model)
        if reason := why_not(gateway, route):
            raise InvalidRequest(f"model {wanted.model!r} is not ready: {reason}")
        return b""

    @post(
        "/v2/repository/index",
        status_code=200,
        media_type=_JSON,
        request_max_body_size=_MOST_BYTES,
        summary="All models",
    )
    async def index(request: _Request) -> bytes:
        caller = await gateway.runtime.access.keyring.caller(request.scope)
        body = await request.body()
        return index_body(_listed(gateway, caller, only_ready=_only_ready(body)))

    return [server, live, ready, model, index]


def _split_path(path: str) -> _ModelPath:
    """Split the path. Raises RouteNotFound for an unknown version."""
    model, _, what = path.rpartition("/")
    if path == "stats":
        return _ModelPath(model="", what=path)  # of all models
    if what not in ("ready", "config", "stats") or not model:
        model, what = path, ""
    model, versions, given = model.rpartition("/versions/")
    if not versions:
        return _ModelPath(model=given, what=what)
    if given != VERSION:
        raise RouteNotFound(f"version {given!r}: every model has version {VERSION} only")
    return _ModelPath(model=model, what=what)


def _listed(gateway: Gateway, caller: Caller, *, only_ready: bool) -> list[IndexEntry]:
    table = gateway.runtime.table
    found: list[IndexEntry] = []
    for name in gateway.runtime.table.names(caller.may_use):
        reason = why_not(gateway, table.find(name))
        if reason and only_ready:
            continue
        found.append(
            IndexEntry(name=name, state="UNAVAILABLE" if reason else "READY", reason=reason)
        )
    return found


def why_not(gateway: Gateway, route: Route) -> str:
    """Return why no backend of the model is available now; "" if one is."""
    reasons = [_resting(gateway, backend) for backend in route.backends]
    return "" if "" in reasons else "; ".join(reasons)


def _resting(gateway: Gateway, backend: Backend) -> str:
    runtime = gateway.runtime
    for name, link in runtime.links.items():
        engine = runtime.engines.get(name)
        if backend.upstream is link and engine is not None and not engine.ready:
            return f"{backend.name}: {engine.status}"
    at, breaker = now(), backend.breaker
    if breaker.is_available(at):
        return ""
    return f"{backend.name}: {breaker.hold.words if breaker.hold else breaker.state(at)}"


def _only_ready(body: bytes) -> bool:
    if not body:
        return False
    try:
        return msgspec.json.decode(body, type=_Index).ready
    except UNREADABLE as exc:
        raise InvalidRequest(f"the body must be an object with `ready`: {exc}") from exc


def _version() -> str:
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return "0"
