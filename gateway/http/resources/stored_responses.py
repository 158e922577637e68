"""Stored responses: look one up, list what led to it, delete it.

https://platform.openai.com/docs/api-reference/responses
"""

from typing import Annotated, Literal

from litestar import Request, delete, get, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.types import ControllerRouterHandler

from gateway.http.unserved_apis import instead_of
from gateway.responses.archive import ResponseArchive
from gateway.state import Gateway
from gateway.surfaces.responses.stored_conversation import (
    LISTED,
    MOST_LISTED,
    deleted_body,
    listed_items,
    whole_resource,
)
from schemas.errors import InvalidRequest, RouteNotFound

_Request = Request[object, object, State]
_Limit = Annotated[int, QueryParameter(ge=1, le=MOST_LISTED)]
_Include = Annotated[
    list[str] | None,
    QueryParameter(name="include[]", description="changes nothing: items are always complete"),
]
_JSON = "application/json"
_PATH = "/v1/responses/{response_id:str}"


def stored_responses(gateway: Gateway) -> list[ControllerRouterHandler]:
    async def opened(request: _Request) -> tuple[ResponseArchive, str]:
        """Return the archive and the caller's key. Raises Unauthenticated, RouteNotFound."""
        key = (await gateway.runtime.keyring.caller(request.scope)).name
        archive = gateway.archive
        if archive is None or not gateway.stores_responses:
            path = request.scope["path"]
            raise RouteNotFound(f"no route {request.method} {path[:200]}{instead_of(path)}")
        return archive, key

    @get(_PATH, media_type=_JSON, summary="A stored response")
    async def find(
        request: _Request, response_id: FromPath[str], stream: FromQuery[bool] = False
    ) -> bytes:
        archive, key = await opened(request)
        found = await archive.find(key, response_id)
        if stream:
            told = "stream: only responses that are made in the background can be streamed again"
            raise InvalidRequest(told, param="stream")
        return whole_resource(found.resource, found.output)

    @delete(_PATH, status_code=200, media_type=_JSON, summary="Delete a stored response")
    async def remove(request: _Request, response_id: FromPath[str]) -> bytes:
        archive, key = await opened(request)
        await archive.remove(key, response_id)
        return deleted_body(response_id)

    @get(f"{_PATH}/input_items", media_type=_JSON, summary="What led to a stored response")
    async def input_items(
        request: _Request,
        response_id: FromPath[str],
        order: FromQuery[Literal["asc", "desc"]] = "desc",
        after: FromQuery[str] = "",
        limit: _Limit = LISTED,
        include: _Include = None,
    ) -> bytes:
        archive, key = await opened(request)
        most_bytes = gateway.runtime.config.server.max_body_bytes
        found = await archive.conversation(key, response_id, most_bytes)
        turns = [(turn.id, turn.input, turn.output) for turn in found.turns]
        return listed_items(turns, order=order, after=after, limit=limit)

    @post(
        f"{_PATH}/cancel",
        status_code=200,
        media_type=_JSON,
        summary="Refused: no response is made in the background",
    )
    async def cancel(request: _Request, response_id: FromPath[str]) -> bytes:
        archive, key = await opened(request)
        await archive.find(key, response_id)
        raise InvalidRequest("Cannot cancel a synchronous response.")

    return [find, remove, input_items, cancel]
