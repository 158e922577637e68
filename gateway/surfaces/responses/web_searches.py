"""Render a web search that ran at another vendor as items of the Responses API, and its citations.

The ids are marked; schemas/searches.py says what becomes of such items.
https://platform.openai.com/docs/api-reference/responses/object#responses-object-output
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.searches import MADE_HERE, Cited, Search

KIND: Final = b"ws" + MADE_HERE.removesuffix("_").encode()
"""Begins the ids of items."""

STEPS: Final = (b"in_progress", b"searching", b"completed")
"""The events of a search between its beginning and its end."""


def search_call(search: Search) -> Callable[[bytes, bytes], bytes]:
    """Return what writes the item, by its id and status."""
    queries = search.queries
    action: dict[str, object] = {"type": "search", "query": queries[0] if queries else ""}
    if len(queries) > 1:
        action["queries"] = queries
    action["sources"] = [{"type": "url", "url": one.url} for one in search.results]
    written = encode(action)
    return lambda id, status: (
        b'{"id":"%b","type":"web_search_call","status":"%b","action":%b}' % (id, status, written)
    )


def whole_call(search: Search) -> Callable[[bytes, bytes], bytes]:
    """As `search_call`, by an id without the kind before it."""
    write = search_call(search)
    return lambda id, status: write(b"%b_%b" % (KIND, id), status)


def from_here(cited: Sequence[Cited], begin: int) -> Sequence[Cited]:
    """Return what a text cites that begins at this character of the answer, counted from there.

    A citation of the texts before is left out; one without a place may be of this text.
    """
    return [
        replace(
            one,
            start_index=max(one.start_index - begin, 0),
            end_index=max(one.end_index - begin, 0),
        )
        for one in cited
        if one.end_index > begin or not one.end_index
    ]


def citations(cited: Sequence[Cited]) -> list[bytes]:
    """Return the annotations of a text, as JSON."""
    return [
        encode(
            {
                "type": "url_citation",
                "url": one.url,
                "title": one.title,
                "start_index": one.start_index,
                "end_index": one.end_index,
            }
        )
        for one in cited
    ]
