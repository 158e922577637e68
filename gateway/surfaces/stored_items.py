"""What a request needs of stored answers before it can be read; the request path fetches it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Request


class Compacted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one compaction item stands for.

    before, after: items that stay, before and after the summary. whole: nothing before the item
    stays.
    """

    summary: str
    before: list[Raw] = []
    after: list[Raw] = []
    whole: bool = False

    @property
    def size(self) -> int:
        """The characters and bytes of all that it stands for."""
        return len(self.summary) + sum(len(bytes(one)) for one in (*self.before, *self.after))


class EarlierItems(Struct, frozen=True, kw_only=True):
    """The stored items that a request refers to.

    items: of the conversation that it continues, as a JSON list; b"" for none.
    root:  the id of that conversation's first response.
    found: items by their ids.
    compacted: what compaction items stand for, by their `encrypted_content`; `None`: nothing opens
    that one.
    """

    items: bytes = b""
    root: str = ""
    found: Mapping[str, Raw] = {}
    compacted: Mapping[str, Compacted | None] = {}


NO_EARLIER_ITEMS: Final = EarlierItems()


class EarlierItemsNeeded(InvalidRequest):
    """The request is valid and refers to stored items. An error only where nothing is stored.

    previous:   the id of the response that it continues; "" for none.
    references: to items: ids and places in the request. What compaction items stand for is
    referred to by their `encrypted_content`.
    size:       bytes of its own items.
    resume:     returns the request, given the items.
    """

    def __init__(
        self,
        previous: str,
        references: Sequence[tuple[str, str]],
        size: int,
        resume: Callable[[EarlierItems], Request],
    ) -> None:
        field = "previous_response_id" if previous else "input"
        super().__init__(
            f"{field}: stored items are only read for requests to the gateway; give all in input",
            param=field,
        )
        self.previous = previous
        self.references = references
        self.size = size
        self.resume = resume
