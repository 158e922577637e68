"""The same model without intelligence, where the task is a search of the web or a PDF."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tests.agents.papers import PRICES, encoded
from tests.agents.play import AFTER, ASIDE, FOLDER, last
from tests.agents.toolsets import Toolset
from tests.gateway.backends.vendors.dialect import Call, Json, ReceivedRequest, Said, dicts
from tests.switching import backends
from tests.switching.scene import CITED, Scene

SEARCHED: Final = f"The web says: {CITED}"
SEEN: Final = f"The list says: {AFTER}"

WITHOUT: Final = "openai"
"""A vendor whose API does not search; its model answers as it knows."""

_HOSTED: Final[Mapping[str, Callable[[Json], bool]]] = {
    "openai-responses": lambda body: '"type": "web_search' in json.dumps(body.get("tools")),
    "anthropic": lambda body: '"type": "web_search_' in json.dumps(body.get("tools")),
    "gemini": lambda body: any("googleSearch" in one for one in dicts(body.get("tools"))),
}
"""Whether a vendor is asked to search itself."""


def search_of(vendor: str, body: Json) -> Scene | None:
    """Return the vendor's answer if it searches for this request itself."""
    hosted = _HOSTED.get(vendor)
    if hosted is None or not hosted(body):
        return None
    (row,) = [one for one in backends.BACKENDS if one.name == vendor]
    (found,) = [one for one in row.scenes() if one.name == "cited"]
    return found


def searches(tools: Toolset | None, request: ReceivedRequest, vendor: str, proof: str) -> Said:
    """Call the agent's own search, if it has one; else answer without. proof: of each call."""
    if tools is None or tools.searches is None:
        return Said(text=(SEARCHED,))
    results = [text for turn in request.turns for _, text in turn.results]
    query = tools.searches("weather in Zürich")
    steps = [query]
    if tools.finder is not None and (query.name not in request.tools or _found(request, tools)):
        steps = [tools.finder, query]
    if len(results) < len(steps):
        return Said(text=(), calls=(_numbered(steps[len(results)], len(results), proof),))
    wanted = ASIDE if vendor == WITHOUT else CITED
    if wanted not in results[-1]:
        return Said(text=(f"The search found: {results[-1]}",))
    return Said(text=(SEARCHED,))


def _found(request: ReceivedRequest, tools: Toolset) -> bool:
    """Whether the finder has been called."""
    called = [call.name for turn in request.turns for call in turn.calls]
    return tools.finder is not None and tools.finder.name in called


def reads_pdf(tools: Toolset | None, request: ReceivedRequest, raw: bytes, proof: str) -> Said:
    """Read it with the agent's tool, unless it came with the task. proof: of the call."""
    if encoded(AFTER) in raw:
        return Said(text=(SEEN,)) if tools is None else last(tools, SEEN)
    said = " ".join(turn.text for turn in request.turns if turn.role != "assistant")
    asked = FOLDER.search(said)
    results = [text for turn in request.turns for _, text in turn.results]
    if tools is None or asked is None:
        return Said(text=(ASIDE,))
    if results:
        return Said(text=(f"There was no PDF: {results}"[:500],))
    return Said(text=(), calls=(_numbered(tools.reads(Path(asked[1]) / PRICES), 0, proof),))


def _numbered(call: Call, number: int, proof: str) -> Call:
    return replace(call, id=f"call{number:05}", proof=proof)
