"""`GET /admin/cache`, `POST /admin/cache/clear`, and the view of the page."""

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from markupsafe import Markup

from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.content.cache.inspection.answer import (
    CacheAsked,
    CacheView,
    ClearCache,
    Cleared,
    Kept,
    cache_view,
    span_of,
)
from strowger_gateway.gateway.content.cache.inspection.rows import CacheUseCount
from strowger_gateway.gateway.content.cache.inspection.view import say, sections
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.platform.language import sentence
from strowger_gateway.schemas.errors import InvalidRequest


class InspectedCache(Protocol):
    """The cache of this gateway."""

    def kept(self) -> Awaitable[Kept]:
        """Raises Unavailable if the leader does not answer."""
        ...

    def uses(self, since: float, until: float) -> Awaitable[Sequence[CacheUseCount] | None]:
        """Return what the store has; `None` without one. Raises StoreUnavailable."""
        ...

    def clear(self, model: str) -> Awaitable[Cleared]:
        """Forget the answers of a model; "": of all. Raises Unavailable."""
        ...


class FindsCache(Protocol):
    """Returns the cache of this gateway. Raises RouteNotFound."""

    def __call__(self, call: AdminCall[Any], /) -> InspectedCache: ...


def cache_routes(find: FindsCache) -> tuple[AdminRoute[CacheAsked], AdminRoute[ClearCache]]:
    async def shown(call: AdminCall[CacheAsked]) -> CacheView:
        return await _view(call, find(call))

    return (
        AdminRoute(
            method="GET",
            path="/cache",
            role="viewer",
            summary="The response cache: hits, misses, what it has saved, and what it keeps",
            takes=CacheAsked,
            returns=CacheView,
            answer=shown,
        ),
        _clear_route(find),
    )


def cache_page(find: FindsCache) -> PageView[CacheAsked]:
    async def render(call: AdminCall[CacheAsked]) -> Markup:
        """Raises InvalidRequest, StoreUnavailable, Unavailable."""
        return sections(await _view(call, find(call)), call.given)

    return PageView(
        say=say,
        name="cache",
        title=sentence("Response cache"),
        group="models",
        role="viewer",
        takes=CacheAsked,
        render=render,
        forms={"clear": _clear_route(find)},
    )


def _clear_route(find: FindsCache) -> AdminRoute[ClearCache]:
    async def clear(call: AdminCall[ClearCache]) -> Cleared:
        """Raises InvalidRequest for a model that the configuration does not have."""
        model = call.given.model
        names = [one.name for one in call.config.models]
        if model and model not in names:
            told = f"model: no model is named {model!r}{nearest(model, names)}"
            raise InvalidRequest(told, param="model")
        found = await find(call).clear(model)
        call.facts["model"] = model or "all"
        call.facts["entries"] = str(found.entries)
        return found

    return AdminRoute(
        method="POST",
        path="/cache/clear",
        role="admin",
        summary="Forget the cached answers of a model, or of all",
        takes=ClearCache,
        returns=Cleared,
        answer=clear,
    )


async def _view(call: AdminCall[CacheAsked], cache: InspectedCache) -> CacheView:
    span = span_of(call.given)
    return cache_view(call.config, span, await cache.kept(), await cache.uses(*span))
