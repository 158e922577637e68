"""Render a web search that ran at another vendor as blocks of Anthropic's, and its citations.

The blocks have marks instead of Anthropic's proofs; schemas/searches.py says what becomes of them.
https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool#response
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.searches import MADE_HERE, Cited, Search, host_of

BETWEEN: Final = "; "
"""Separates the queries of one search."""


class SearchBlocks(Struct, frozen=True, kw_only=True):
    """call: `server_tool_use` without its input. input: JSON. result: `web_search_tool_result`."""

    call: bytes
    input: bytes
    result: bytes

    @property
    def whole(self) -> tuple[bytes, bytes]:
        """Return both blocks as whole answers have them."""
        return self.call.replace(b'"input":{}', b'"input":%b' % self.input), self.result


def search_blocks(search: Search, answer: str, place: int) -> SearchBlocks:
    """Return a search's blocks. answer: its id. place: of the search within the answer."""
    id = f"srvtoolu{MADE_HERE}{answer.removeprefix('msg_')}_{place}"
    results = [
        {
            "type": "web_search_result",
            "url": one.url,
            "title": one.title or host_of(one.url),
            "encrypted_content": MADE_HERE,
            "page_age": one.age or None,
        }
        for one in search.results
    ]
    call = {"type": "server_tool_use", "id": id, "name": "web_search", "input": _NOTHING}
    result = {"type": "web_search_tool_result", "tool_use_id": id, "content": results}
    return SearchBlocks(
        call=encode(call),
        input=encode({"query": BETWEEN.join(search.queries)}),
        result=encode(result),
    )


_NOTHING: Final[dict[str, str]] = {}


def citations(cited: Sequence[Cited]) -> list[bytes]:
    """Return what a text block cites, as JSON."""
    return [
        encode(
            {
                "type": "web_search_result_location",
                "url": one.url,
                "title": one.title or host_of(one.url),
                "encrypted_index": MADE_HERE,
                "cited_text": one.content or "",
            }
        )
        for one in cited
    ]
