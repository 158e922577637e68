"""Pages of what led to a stored response: one response of the conversation is decoded at a time."""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from msgspec import Raw, Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.stored_conversation import (
    given_items,
    id_of,
    listed_id,
    listed_item,
    output_items,
    response_of,
)
from strowger_gateway.schemas.errors import InvalidRequest

MOST_LISTED: Final = 100
LISTED: Final = 20
PAGE_BYTES: Final = 4 * 1024 * 1024
"""A page ends after this many bytes of items, however few they are: `has_more` is true then."""


class ItemPage(Struct, frozen=True, kw_only=True):
    """A page that a client wants. after: an item's id, "" for the first page. limit: items."""

    order: Literal["asc", "desc"] = "desc"
    after: str = ""
    limit: int = LISTED


class ItemTexts(Protocol):
    """input, output: the items of one response, as stored."""

    @property
    def input(self) -> str: ...

    @property
    def output(self) -> str: ...


class Listable(Protocol):
    """A conversation. ids: of its responses, oldest first. sizes: bytes of the items of each."""

    ids: Sequence[str]
    sizes: Sequence[int]

    def read(self, place: int) -> ItemTexts: ...


def item_page(turns: Listable, page: ItemPage, most_bytes: int) -> bytes:
    """Return a page of what led to the last response: all items but its own. Blocks.

    most_bytes: of items that are read in search of `page.after`, if its id names no response.
    Raises InvalidRequest if that is not found.
    """
    places = range(len(turns.ids))
    if page.order == "desc":
        places = places[::-1]
    begin, skipped = _begin(turns, places, page, most_bytes) if page.after else (0, 0)
    items: list[Raw] = []
    size = 0
    more = False
    for place in places[begin:]:
        for one in _items(turns, place, page)[skipped:]:
            item = one.listed()
            if len(items) == page.limit or (items and size + len(bytes(item)) > PAGE_BYTES):
                more = True
                break
            items.append(item)
            size += len(bytes(item))
        skipped = 0
        if more:
            break
    return encode(
        {
            "object": "list",
            "data": items,
            "first_id": id_of(items[0]) if items else None,
            "last_id": id_of(items[-1]) if items else None,
            "has_more": more,
        }
    )


def _begin(
    turns: Listable, places: Sequence[int], page: ItemPage, most_bytes: int
) -> tuple[int, int]:
    """Return where in `places` the page begins, and the number of items to skip there.

    The id of nearly every item names its response, which is therefore read first.
    """
    named = response_of(page.after)
    if named in turns.ids:
        at = places.index(turns.ids.index(named))
        if skipped := _skipped(turns, places[at], page):
            return at, skipped
    left = most_bytes
    for at, place in enumerate(places):
        left -= turns.sizes[place]
        if left < 0:
            break
        if skipped := _skipped(turns, place, page):
            return at, skipped
    raise InvalidRequest("after: the list has no item of this id", param="after")


def _skipped(turns: Listable, place: int, page: ItemPage) -> int:
    """Return the number of the items up to and including `page.after`; 0 if it is not there."""
    for number, item in enumerate(_items(turns, place, page), 1):
        if item.id() == page.after:
            return number
    return 0


class _Item(Struct, frozen=True, gc=False):
    """An item as stored, which is made complete only if it is on the page.

    given: its place in the request of this response; `None` for an item of its answer.
    """

    raw: Raw
    response: str
    given: int | None

    def id(self) -> str | None:
        if self.given is None:
            return id_of(self.raw)
        return listed_id(self.raw, self.response, self.given)

    def listed(self) -> Raw:
        if self.given is None:
            return self.raw
        return listed_item(self.raw, self.response, self.given)


def _items(turns: Listable, place: int, page: ItemPage) -> list[_Item]:
    """Return the items of one response, in the page's order."""
    turn, id = turns.read(place), turns.ids[place]
    items = [_Item(raw, id, number) for number, raw in enumerate(given_items(turn.input))]
    if place < len(turns.ids) - 1:
        items += [_Item(raw, id, None) for raw in output_items(turn.output)]
    return items[::-1] if page.order == "desc" else items
