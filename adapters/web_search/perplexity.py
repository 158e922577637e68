"""Web search at Perplexity, whose models search for each answer and have no tool for it.

https://docs.perplexity.ai/api-reference/chat-completions-post
"""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import json_of
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.adapters.web_search.rules import without
from strowger_gateway.adapters.web_search.settings import SearchSettings, forces_search, settings_of
from strowger_gateway.schemas.content_facts import OPAQUE
from strowger_gateway.schemas.messages import FunctionTool, Message, OpaqueTool
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.searches import is_search

DOMAINS: Final = 20
"""The most hosts that Perplexity takes."""

_PLACES: Final = ("city", "region", "country")


def _fields(settings: SearchSettings) -> Mapping[str, object]:
    fields: dict[str, object] = {}
    domains = settings.allowed or tuple([f"-{one}" for one in settings.blocked])
    if domains:
        fields["search_domain_filter"] = domains[:DOMAINS]
    place = {name: one for name, one in settings.place.items() if name in _PLACES}
    options: dict[str, object] = {"user_location": place} if place else {}
    if settings.context:
        options["search_context_size"] = settings.context
    if options:
        fields["web_search_options"] = options
    return fields


def _translated(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = [one for one in request.tools or () if is_search(one)]
    if not found or not isinstance(found[0], OpaqueTool):
        return None
    fields = _fields(settings_of(found[0].raw))
    added = {name: json_of(one) for name, one in fields.items() if name not in request.extra}
    sent = without(request, found)
    if forces_search(request):
        sent = replace(sent, tool_choice=UNSET)
    return Repaired(
        request=replace(sent, written={**(sent.written or {}), **added}),
        changed=("tools[]",),
    )


PERPLEXITY_SEARCH: Final = Repair(
    name="web_search",
    about="leaves out the tool of a web search, which runs without it, and sends its settings",
    source="https://docs.perplexity.ai/api-reference/chat-completions-post",
    facts=OPAQUE,
    apply=_translated,
    example=ChatRequest(
        "m",
        (Message(role="user", content="What is new?"),),
        tools=(
            FunctionTool(name="look_up"),
            OpaqueTool(type="googleSearch", raw=Raw(b'{"type":"googleSearch"}')),
        ),
    ),
    loss="hint",
)
