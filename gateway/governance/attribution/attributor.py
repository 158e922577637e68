"""Attribute requests to client programs and tags, when they have ended."""

from collections.abc import Mapping
from typing import Final, Protocol

from strowger_gateway.gateway.governance.attribution.clients import (
    ORIGINATOR,
    REFERER,
    TITLE,
    USER_AGENT,
    client_of,
)
from strowger_gateway.gateway.governance.attribution.section import Attribution
from strowger_gateway.gateway.governance.attribution.tags import (
    DATABRICKS,
    LITELLM,
    TAGS,
    request_tags,
)

TELLING: Final = frozenset({TAGS, LITELLM, DATABRICKS, TITLE, REFERER, ORIGINATOR})
"""Headers that say more of a request than its User-Agent."""

_MOST_KNOWN: Final = 1024


class AttributedRequest(Protocol):
    """What is attributed: a RequestRecord."""

    client: str
    request_tags: tuple[str, ...]
    metadata: bytes

    @property
    def fields(self) -> Mapping[bytes, bytes]: ...


class Attributor:
    """known: names by User-Agent, of requests without TELLING headers; a caller looks there first.

    Requests carry no more than a reference to their headers until they have ended.
    """

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}
        self._section = Attribution()

    def configure(self, section: Attribution) -> None:
        """Use another configuration."""
        self._section = section
        self.known.clear()

    def attribute(self, record: AttributedRequest) -> None:
        """Set the client and the tags of a request."""
        fields = record.fields
        record.client = client_of(fields, self._section.clients)
        if TELLING.isdisjoint(fields):
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[fields.get(USER_AGENT, b"")] = record.client
            if not record.metadata:
                return
        record.request_tags = request_tags(fields, record.metadata, self._section.metadata)
