"""The answer of `POST /v1/responses/compact`: the items to go on with.

https://developers.openai.com/api/reference/resources/responses/methods/compact
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.compaction import leading_in
from strowger_gateway.gateway.surfaces.responses.render import OUTPUT
from strowger_gateway.gateway.surfaces.responses.stored_conversation import listed_item
from strowger_gateway.gateway.surfaces.responses.usage import usage_json
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.requests import ChatRequest

_items: Final = msgspec.json.Decoder(list[Raw])


class WindowRenderer:
    """Renders a whole answer: what stays of the client's items, and the compaction item.

    A server that has the same route has returned both.
    """

    def __init__(self, request: ChatRequest, *, request_id: str, created: int) -> None:
        """created: Unix seconds."""
        self._request = request
        self._id = f"resp_{request_id}"
        self._created = created

    def headers(self, backend: str) -> Headers:
        return []

    def answer(self, answer: Answer) -> bytes:
        opaque = answer.choices[0].opaque
        leading = leading_in(opaque)
        output = opaque[OUTPUT] if OUTPUT in opaque else [*self._kept(), *leading]
        return encode(
            {
                "id": self._id,
                "object": "response.compaction",
                "created_at": self._created,
                "output": output,
                "usage": Raw(usage_json(answer.usage)),
            }
        )

    def events(self, batch: Sequence[Event]) -> bytes:
        raise _not_streamed()

    def finish(self) -> bytes:
        raise _not_streamed()

    def error(self, exc: GatewayError) -> bytes:
        raise _not_streamed()

    def _kept(self) -> Sequence[Raw]:
        original = self._request.original
        wants = None if original is None else original.compaction
        if wants is None or not isinstance(wants.kept, Raw):
            return ()
        given = _items.decode(wants.kept)
        return [listed_item(raw, self._id, place) for place, raw in enumerate(given)]


def _not_streamed() -> GatewayError:
    return GatewayError("the items to go on with are never streamed")
