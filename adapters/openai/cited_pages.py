"""Decodes answers that cite pages by their numbers in a list, as Perplexity's do.

The list comes with the answer's head, the numbers are in its text (`[1]`). Each mark becomes an
annotation, as OpenAI has them; the list itself is forwarded like every unknown field.
https://docs.perplexity.ai/api-reference/chat-completions-post
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.schemas.events import Event, Finished, OpaqueDelta, Started, TextDelta
from strowger_gateway.schemas.searches import Cited, Found, Search, citations_field, searches_field

PAGES: Final = "search_results"

_MARK: Final = re.compile(r"\[(\d{1,3})\]")


class _Page(Struct, frozen=True, kw_only=True):
    url: str = ""
    title: str | None = None
    date: str | None = None
    snippet: str | None = None


_pages: Final = msgspec.json.Decoder(tuple[_Page, ...]).decode


class CitedPagesDecoder(OpenAIDecoder):
    """Mutable state: also the text so far, and the pages."""

    _found: tuple[_Page, ...] = ()

    def __init__(self, endpoint: Endpoint, *, stream: bool, choices: int) -> None:
        super().__init__(endpoint, stream=stream, choices=choices)
        self._said: list[str] = []

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        return self._citing(super().feed(event, data))

    def close(self) -> Sequence[Event]:
        return self._citing(super().close())

    def _citing(self, events: Sequence[Event]) -> Sequence[Event]:
        citing: list[Event] = []
        for one in events:
            if isinstance(one, Started):
                self._found = _read(one.extra.get(PAGES)) or self._found
            elif isinstance(one, TextDelta) and one.index == 0:
                self._said.append(one.text)
            elif isinstance(one, Finished) and one.index == 0 and self._found:
                citing.append(OpaqueDelta(fields=self._sources()))
            citing.append(one)
        return citing

    def _sources(self) -> dict[str, Raw]:
        pages = [
            Found(url=one.url, title=one.title or "", age=one.date or "") for one in self._found
        ]
        cited = [
            Cited(
                url=page.url,
                title=page.title or "",
                start_index=mark.start(),
                end_index=mark.end(),
                content=page.snippet or UNSET,
            )
            for mark in _MARK.finditer("".join(self._said))
            if 0 < int(mark[1]) <= len(self._found)
            for page in (self._found[int(mark[1]) - 1],)
        ]
        fields = searches_field([Search(results=tuple(pages))])
        return fields | citations_field(cited) if cited else fields


def _read(raw: Raw | None) -> tuple[_Page, ...]:
    """Return the pages; none if they cannot be read, which never fails an answer."""
    try:
        return () if raw is None else _pages(raw)
    except UNREADABLE:
        return ()
