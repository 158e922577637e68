"""Render a web search that ran at another vendor, and what the answer cites, as grounding.

https://ai.google.dev/api/generate-content#GroundingMetadata
"""

from collections.abc import Sequence

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.searches import Cited, Search, host_of


def grounding_metadata(searches: Sequence[Search], cited: Sequence[Cited], text: str) -> bytes:
    """Return `groundingMetadata` as JSON; b"" if nothing was searched or cited.

    text: the answer's, in which the citations are. Google counts its bytes, others characters.
    """
    queries = list(dict.fromkeys(one for search in searches for one in search.queries))
    if not (queries or cited):
        return b""
    places: dict[str, int] = {}
    titles: dict[str, str] = {}
    for one in cited:
        places.setdefault(one.url, len(places))
        titles.setdefault(one.url, one.title or host_of(one.url))
    chunks = [{"web": {"uri": url, "title": titles[url]}} for url in places]
    supports = [
        {
            "segment": {
                "startIndex": _bytes(text, one.start_index),
                "endIndex": _bytes(text, one.end_index),
                "text": text[one.start_index : one.end_index],
            },
            "groundingChunkIndices": [places[one.url]],
        }
        for one in cited
        if one.end_index > one.start_index
    ]
    return encode(
        {"webSearchQueries": queries, "groundingChunks": chunks, "groundingSupports": supports}
    )


def _bytes(text: str, index: int) -> int:
    return len(text[:index].encode())
