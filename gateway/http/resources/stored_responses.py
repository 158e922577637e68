"""Stored responses: look one up, list what led to it, delete it.

https://platform.openai.com/docs/api-reference/responses
"""

from typing import Annotated, Literal

from litestar import Request, delete, get, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.types import ControllerRouterHandler
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.governance.access.key_shares import Slot
from strowger_gateway.gateway.http.counted import counted, counted_in
from strowger_gateway.gateway.http.unserved_apis import instead_of
from strowger_gateway.gateway.surfaces.responses.item_pages import LISTED, MOST_LISTED, ItemPage
from strowger_gateway.gateway.surfaces.responses.stored_conversation import deleted_body
from strowger_gateway.schemas.errors import InvalidRequest, RouteNotFound
from strowger_gateway.schemas.holdings import Holder

_Request = Request[object, object, State]
_Limit = Annotated[int, QueryParameter(ge=1, le=MOST_LISTED)]
_Include = Annotated[
    list[str] | None,
    QueryParameter(name="include[]", description="changes nothing: items are always complete"),
]
_JSON = "application/json"
_PATH = "/v1/responses/{response_id:str}"


class _Opened(Struct, frozen=True, kw_only=True, eq=False):
    """The archive, and who uses it. slot: of the request."""

    archive: ResponseArchive
    key: str
    holder: Holder
    slot: Slot

    def claimed(self, body: bytes) -> bytes:
        """Return the body, which uses the key's memory until it is sent. Raises Throttled."""
        self.slot.buffer(len(body))
        return body


def _opened(gateway: Gateway, request: _Request) -> _Opened:
    """Raises RouteNotFound if nothing is stored."""
    kept = gateway.side(StoredResponsesSide)
    archive = kept.archive
    if archive is None or not kept.stores:
        path = request.scope["path"]
        raise RouteNotFound(f"no route {request.method} {path[:200]}{instead_of(path)}")
    found = counted_in(request.scope)
    return _Opened(
        archive=archive, key=found.caller.name, holder=found.caller.holder, slot=found.slot
    )


def stored_responses(gateway: Gateway) -> list[ControllerRouterHandler]:
    own = [counted(gateway, "responses", limited=True)]

    @get(_PATH, media_type=_JSON, summary="A stored response", middleware=own)
    async def find(
        request: _Request, response_id: FromPath[str], stream: FromQuery[bool] = False
    ) -> bytes:
        to = _opened(gateway, request)
        if stream:
            await to.archive.check(to.key, to.holder, response_id)
            told = "stream: only responses that are made in the background can be streamed again"
            raise InvalidRequest(told, param="stream")
        return to.claimed(await to.archive.resource(to.key, to.holder, response_id))

    @delete(
        _PATH, status_code=200, media_type=_JSON, summary="Delete a stored response", middleware=own
    )
    async def remove(request: _Request, response_id: FromPath[str]) -> bytes:
        to = _opened(gateway, request)
        await to.archive.remove(to.key, to.holder, response_id)
        return deleted_body(response_id)

    @post(
        f"{_PATH}/cancel",
        status_code=200,
        media_type=_JSON,
        summary="Refused: no response is made in the background",
        middleware=own,
    )
    async def cancel(request: _Request, response_id: FromPath[str]) -> bytes:
        to = _opened(gateway, request)
        await to.archive.check(to.key, to.holder, response_id)
        raise InvalidRequest("Cannot cancel a synchronous response.")

    return [find, remove, _input_items(gateway), cancel]


def _input_items(gateway: Gateway) -> ControllerRouterHandler:
    @get(
        f"{_PATH}/input_items",
        media_type=_JSON,
        summary="What led to a stored response",
        middleware=[counted(gateway, "responses", limited=True)],
    )
    async def input_items(
        request: _Request,
        response_id: FromPath[str],
        order: FromQuery[Literal["asc", "desc"]] = "desc",
        after: FromQuery[str] = "",
        limit: _Limit = LISTED,
        include: _Include = None,
    ) -> bytes:
        to = _opened(gateway, request)
        page = ItemPage(order=order, after=after, limit=limit)
        most_bytes = gateway.runtime.config.server.max_body_bytes
        items = await to.archive.items(to.key, to.holder, response_id, page, most_bytes)
        return to.claimed(items)

    return input_items
