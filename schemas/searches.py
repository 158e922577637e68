"""Web searches that a vendor ran while it answered, in a form that every dialect can render.

Decoders send them as a field of an OpaqueDelta, all so far each time; renderers write those that
they have not written. What the answer cites is in `annotations`, as chat completions have it.
https://platform.openai.com/docs/api-reference/chat/object#chat-object-choices-message-annotations
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType

from strowger_gateway.schemas.messages import OpaqueTool, Tool
from strowger_gateway.schemas.requests import ChatRequest

SEARCHES: Final = "(searches)"
"""The name of the field; no server sends such a name, and no client gets it."""

ANNOTATIONS: Final = "annotations"

MADE_HERE: Final = "_strowger_"
"""In the ids of searches that are rendered in another dialect than the vendor's, and in place of
the proofs that the dialect has. Its vendor would refuse them, so they are never sent there."""

_SEARCHES: Final = re.compile(
    r"web_search(_preview)?(_20\d\d_\d\d_\d\d)?|web_search_20\d{6}|google_search|googleSearch"
    r"|openrouter:web_search"
)


class Found(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One result. title: "" if the vendor sends none. age: in the vendor's words, "" for none."""

    url: str
    title: str = ""
    age: str = ""


class Search(Struct, frozen=True, kw_only=True, gc=False):
    """queries: what was searched for, () if the vendor does not say."""

    queries: tuple[str, ...] = ()
    results: tuple[Found, ...] = ()


class Cited(Struct, frozen=True, kw_only=True, gc=False):
    """A source of the answer's text from character `start_index` to before `end_index`.

    content: what the source says, if the vendor sends it.
    """

    url: str
    title: str = ""
    start_index: int = 0
    end_index: int = 0
    content: str | UnsetType = UNSET


class _Citation(Struct, frozen=True, kw_only=True):
    """As vendors send it; what some leave out, others send as null."""

    url: str | None = None
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None
    content: str | None = None


class _Annotation(Struct, frozen=True, kw_only=True):
    url_citation: _Citation | None = None


_searches: Final = msgspec.json.Decoder(tuple[Search, ...])
_annotations: Final = msgspec.json.Decoder(tuple[Raw, ...])
_annotation: Final = msgspec.json.Decoder(_Annotation)
_encode: Final = msgspec.json.Encoder().encode


def is_search_type(kind: str) -> bool:
    """Return whether this is the type of a web search that a vendor runs."""
    return _SEARCHES.fullmatch(kind) is not None


def is_search(tool: Tool) -> bool:
    """Return whether the tool is a web search that a vendor runs."""
    return isinstance(tool, OpaqueTool) and is_search_type(tool.type)


def offers_search(request: ChatRequest) -> bool:
    """Return whether the client lets a vendor search the web."""
    return any(is_search(one) for one in request.tools or ())


def searches_field(searches: Sequence[Search]) -> dict[str, Raw]:
    """Return the field of an answer that has these searches."""
    return {SEARCHES: Raw(_encode(searches))}


def citations_field(cited: Sequence[Cited]) -> dict[str, Raw]:
    """Return the field of an answer that cites these sources."""
    told = [{"type": "url_citation", "url_citation": one} for one in cited]
    return {ANNOTATIONS: Raw(_encode(told))}


def searches_of(fields: Mapping[str, Raw]) -> tuple[Search, ...]:
    """Return the searches among an answer's fields."""
    raw = fields.get(SEARCHES)
    return () if raw is None else _searches.decode(raw)


def whole_searches_of(fields: Mapping[str, Raw]) -> tuple[Search, ...]:
    """Return the searches of a whole answer, or one that found what the answer cites.

    A vendor of chat completions says what was found, and not that it searched.
    """
    if SEARCHES in fields:
        return searches_of(fields)
    found = {one.url: Found(url=one.url, title=one.title) for one in citations_of(fields)}
    return (Search(results=tuple(found.values())),) if found else ()


def with_results(searches: Sequence[Search], cited: Sequence[Cited]) -> Sequence[Search]:
    """Return the searches; if no result is known, the last one found what is cited."""
    if not searches or any(one.results for one in searches):
        return searches
    found = {one.url: Found(url=one.url, title=one.title) for one in cited}
    last = Search(queries=searches[-1].queries, results=tuple(found.values()))
    return (*searches[:-1], last)


def citations_of(fields: Mapping[str, Raw]) -> tuple[Cited, ...]:
    """Return what an answer cites; annotations of other kinds are left out."""
    raw = fields.get(ANNOTATIONS)
    if raw is None:
        return ()
    found: list[Cited] = []
    try:
        raws = _annotations.decode(raw)
    except (DecodeError, RecursionError):
        return ()
    for one in raws:
        try:
            cited = _annotation.decode(one).url_citation
        except (DecodeError, RecursionError):
            continue
        if cited is not None and cited.url:
            found.append(
                Cited(
                    url=cited.url,
                    title=cited.title or "",
                    start_index=cited.start_index or 0,
                    end_index=cited.end_index or 0,
                    content=cited.content or UNSET,
                )
            )
    return tuple(found)


def host_of(url: str) -> str:
    """Return a name for a page whose title is unknown."""
    return url.partition("://")[2].partition("/")[0] or url
