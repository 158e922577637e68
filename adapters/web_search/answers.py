"""Read what a vendor's web search found, and what its answer cites."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, DecodeError, Meta, Raw, Struct

from strowger_gateway.schemas.searches import Cited, Found, Search

NULL: Final = Raw(b"null")
UNREADABLE: Final = (DecodeError, UnicodeDecodeError, RecursionError)


class _Source(Struct, frozen=True, kw_only=True):
    url: str = ""
    title: str | None = None


class _Action(Struct, frozen=True, kw_only=True):
    type: str = "search"
    query: str | None = None
    queries: tuple[str, ...] | None = None
    sources: tuple[_Source, ...] | None = None


class _Call(Struct, frozen=True, kw_only=True):
    action: _Action | None = None


class _Query(Struct, frozen=True, kw_only=True):
    query: str = ""


class _Result(Struct, frozen=True, kw_only=True):
    url: str = ""
    title: str | None = None
    page_age: str | None = None


class _Location(Struct, frozen=True, kw_only=True):
    type: str = ""
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None


class _Block(Struct, frozen=True, kw_only=True):
    """A block of Claude's: a search, its results, or a text that cites them."""

    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = NULL
    tool_use_id: str = ""
    content: Raw = NULL
    text: str = ""
    citations: tuple[Raw, ...] | None = None


class _Web(Struct, frozen=True, kw_only=True):
    uri: str = ""
    title: str | None = None


class _Chunk(Struct, frozen=True, kw_only=True):
    web: _Web | None = None


class _Segment(Struct, frozen=True, kw_only=True, rename="camel"):
    start_index: Annotated[int, Meta(ge=0)] = 0
    end_index: Annotated[int, Meta(ge=0)] = 0


class _Support(Struct, frozen=True, kw_only=True, rename="camel"):
    segment: _Segment | None = None
    grounding_chunk_indices: tuple[Annotated[int, Meta(ge=0)], ...] | None = None


class _Grounding(Struct, frozen=True, kw_only=True, rename="camel"):
    web_search_queries: tuple[str, ...] | None = None
    grounding_chunks: tuple[Raw, ...] | None = None
    grounding_supports: tuple[Raw, ...] | None = None


_call: Final = msgspec.json.Decoder(_Call).decode
_block: Final = msgspec.json.Decoder(_Block).decode
_query: Final = msgspec.json.Decoder(_Query).decode
_results: Final = msgspec.json.Decoder(tuple[_Result, ...]).decode
_location: Final = msgspec.json.Decoder(_Location).decode
_grounding: Final = msgspec.json.Decoder(_Grounding).decode
_chunk: Final = msgspec.json.Decoder(_Chunk).decode
_support: Final = msgspec.json.Decoder(_Support).decode


def search_of_item(raw: Raw) -> Search | None:
    """Return the search of an item `web_search_call`; `None` if it only opened a page."""
    try:
        action = _call(raw).action or _Action()
    except UNREADABLE:
        return None
    if action.type != "search":
        return None
    found = [Found(url=one.url, title=one.title or "") for one in action.sources or () if one.url]
    queries = action.queries or ((action.query,) if action.query else ())
    return Search(queries=queries, results=tuple(found))


def searches_of_blocks(blocks: Sequence[Raw]) -> list[Search]:
    """Return the searches of an answer of Claude's that have results, or failed."""
    queries: dict[str, str] = {}
    found: list[Search] = []
    for raw in blocks:
        try:
            one = _block(raw)
            if one.type == "server_tool_use" and one.name == "web_search":
                queries[one.id] = _query(one.input).query
            elif one.type == "web_search_tool_result":
                query = queries.get(one.tool_use_id, "")
                found.append(Search(queries=(query,) if query else (), results=_found(one.content)))
        except UNREADABLE:
            continue
    return found


def _found(content: Raw) -> tuple[Found, ...]:
    """Return the results; none of a search that failed, which has an error in their place."""
    if bytes(memoryview(content)[:1]) != b"[":
        return ()
    return tuple(
        [
            Found(url=one.url, title=one.title or "", age=one.page_age or "")
            for one in _results(content)
            if one.url
        ]
    )


def citations_of_blocks(blocks: Sequence[Raw]) -> list[Cited]:
    """Return what the texts of an answer of Claude's cite from the web."""
    cited: list[Cited] = []
    begin = 0
    for raw in blocks:
        try:
            one = _block(raw)
        except UNREADABLE:
            continue
        end = begin + len(one.text) if one.type == "text" else begin
        for location in one.citations or ():
            try:
                source = _location(location)
            except UNREADABLE:
                continue
            if source.type == "web_search_result_location" and source.url:
                cited.append(
                    Cited(
                        url=source.url,
                        title=source.title or "",
                        start_index=begin,
                        end_index=end,
                        content=source.cited_text or UNSET,
                    )
                )
        begin = end
    return cited


def grounding_of(fields: Mapping[str, Raw], text: str) -> tuple[list[Search], list[Cited]]:
    """Return what Google's search found, and which parts of the text go back to it.

    fields: the candidate's. text: its whole text, in whose UTF-8 bytes Google counts.
    https://ai.google.dev/gemini-api/docs/google-search#grounding-metadata
    """
    raw = fields.get("grounding_metadata")
    if raw is None:
        return [], []
    try:
        read = _grounding(raw)
    except UNREADABLE:
        return [], []
    pages = [_page(one) for one in read.grounding_chunks or ()]
    queries = read.web_search_queries or ()
    results = tuple([Found(url=one.uri, title=one.title or "") for one in pages if one.uri])
    searches = [Search(queries=queries, results=results)] if queries or results else []
    encoded, cited = text.encode("utf-8", "surrogatepass"), list[Cited]()
    for one in read.grounding_supports or ():
        try:
            support = _support(one)
        except UNREADABLE:
            continue
        segment = support.segment or _Segment()
        start, end = _characters(encoded, segment.start_index, segment.end_index)
        cited += [
            Cited(url=page.uri, title=page.title or "", start_index=start, end_index=end)
            for page in [
                pages[at] for at in support.grounding_chunk_indices or () if at < len(pages)
            ]
            if page.uri
        ]
    return searches, cited


def _page(chunk: Raw) -> _Web:
    """Return the page of a chunk, without an address if it is none: others count its place."""
    try:
        return _chunk(chunk).web or _Web()
    except UNREADABLE:
        return _Web()


def _characters(encoded: bytes, start: int, end: int) -> tuple[int, int]:
    before = len(encoded[:start].decode("utf-8", "ignore"))
    return before, before + len(encoded[start:end].decode("utf-8", "ignore"))
