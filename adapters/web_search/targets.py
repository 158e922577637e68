"""How each vendor with a web search is asked for it."""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.adapters.web_search.settings import Place, SearchSettings
from strowger_gateway.schemas.messages import OpaqueTool, Tool, ToolChoice

Setting = Literal["allowed", "blocked", "place", "context", "max_uses", "offline"]


class Lost(Struct, frozen=True, kw_only=True):
    """A setting that a vendor's search does not have.

    path: what it is called where it is reported. limits: without it, an answer may contain what the
    client ruled out.
    """

    path: str
    limits: bool = False


PATHS: Final[Mapping[Setting, Lost]] = {
    "allowed": Lost(path="tools[].allowed_domains", limits=True),
    "blocked": Lost(path="tools[].blocked_domains", limits=True),
    "offline": Lost(path="tools[].external_web_access", limits=True),
    "place": Lost(path="tools[].user_location"),
    "context": Lost(path="tools[].search_context_size"),
    "max_uses": Lost(path="tools[].max_uses"),
}

_encode: Final = msgspec.json.Encoder().encode


class Target(Struct, frozen=True, kw_only=True):
    """One vendor's search.

    own:    matches the types of its tools, which are sent as they are.
    keeps:  the settings that it has.
    write:  returns the tool, with only those settings.
    choose: returns the choice that forces a search, by whether there are other tools; UNSET: the
            vendor has none.
    clashes: it takes no function of the name `web_search` next to its tool.
    fields: returns what else the vendor's request has for the settings.
    either: it takes allowed or blocked hosts, not both.
    source: where the vendor documents it.
    """

    own: re.Pattern[str]
    keeps: frozenset[Setting]
    write: Callable[[SearchSettings], Mapping[str, object]]
    choose: Callable[[bool], ToolChoice | UnsetType]
    clashes: bool = False
    either: bool = False
    fields: Callable[[SearchSettings], Mapping[str, object]] = lambda _: {}
    source: str

    def is_own(self, tool: Tool) -> bool:
        """Return whether the vendor takes the tool as it is."""
        return isinstance(tool, OpaqueTool) and self.own.fullmatch(tool.type) is not None

    def tool(self, settings: SearchSettings) -> OpaqueTool:
        """Return the vendor's tool with those of the settings that it has."""
        kept = {name: getattr(settings, name) for name in self.keeps}
        written = self.write(SearchSettings(**kept))
        return OpaqueTool(type=str(written["type"]), raw=Raw(_encode(written)))

    def lost(self, settings: SearchSettings) -> list[Lost]:
        """Return which of the settings the vendor does not have."""
        lost = [
            one for name, one in PATHS.items() if getattr(settings, name) and name not in self.keeps
        ]
        if self.either and settings.allowed and settings.blocked:
            lost.append(PATHS["blocked"])
        return lost


def _location(place: Place) -> dict[str, object]:
    return {"user_location": {"type": "approximate", **place}} if place else {}


def _responses(settings: SearchSettings) -> Mapping[str, object]:
    tool: dict[str, object] = {"type": "web_search"}
    if settings.allowed:
        tool["filters"] = {"allowed_domains": settings.allowed}
    if settings.context:
        tool["search_context_size"] = settings.context
    return tool | _location(settings.place)


def _choose_responses(others: bool) -> ToolChoice:
    """Its choice of a hosted tool by type does not have `web_search` in all versions."""
    if not others:
        return ToolChoice(mode="required")
    allowed = {"mode": "required", "tools": [{"type": "web_search"}]}
    raw = Raw(_encode({"type": "allowed_tools", "allowed_tools": allowed}))
    return ToolChoice(mode="opaque", raw=raw)


def _anthropic(settings: SearchSettings) -> Mapping[str, object]:
    tool: dict[str, object] = {"type": "web_search_20250305", "name": "web_search"}
    if settings.allowed:
        tool["allowed_domains"] = settings.allowed
    elif settings.blocked:
        tool["blocked_domains"] = settings.blocked
    if settings.max_uses:
        tool["max_uses"] = settings.max_uses
    return tool | _location(settings.place)


def _gemini(settings: SearchSettings) -> Mapping[str, object]:
    blocked = {"excludeDomains": settings.blocked} if settings.blocked else {}
    return {"type": "google_search", **blocked}


def _openrouter(settings: SearchSettings) -> Mapping[str, object]:
    parameters: dict[str, object] = {}
    if settings.allowed:
        parameters["allowed_domains"] = settings.allowed
    elif settings.blocked:
        parameters["excluded_domains"] = settings.blocked
    if settings.context:
        parameters["search_context_size"] = settings.context
    parameters |= _location(settings.place)
    tool: dict[str, object] = {"type": "openrouter:web_search"}
    return {**tool, "parameters": parameters} if parameters else tool


RESPONSES: Final = Target(
    own=re.compile(r"web_search(_preview)?(_20\d\d_\d\d_\d\d)?"),
    keeps=frozenset({"allowed", "place", "context", "max_uses"}),
    write=_responses,
    fields=lambda one: {"max_tool_calls": one.max_uses} if one.max_uses else {},
    choose=_choose_responses,
    source="https://developers.openai.com/api/docs/guides/tools-web-search",
)
"""OpenAI's Responses API, and servers of it that search."""

OPENROUTER_RESPONSES: Final = msgspec.structs.replace(
    RESPONSES, own=re.compile(f"openrouter:web_search|{RESPONSES.own.pattern}")
)

ANTHROPIC: Final = Target(
    own=re.compile(r"web_search_20\d{6}"),
    keeps=frozenset({"allowed", "blocked", "place", "max_uses"}),
    write=_anthropic,
    choose=lambda _: ToolChoice(mode="named", name="web_search"),
    clashes=True,
    either=True,
    source="https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool",
)

GEMINI: Final = Target(
    own=re.compile("google_search"),
    keeps=frozenset(),
    write=_gemini,
    choose=lambda _: UNSET,
    source="https://ai.google.dev/gemini-api/docs/google-search",
)

VERTEX: Final = msgspec.structs.replace(GEMINI, keeps=frozenset({"blocked"}))
"""Gemini on Vertex AI. https://docs.cloud.google.com/vertex-ai/generative-ai/docs/grounding/overview"""

OPENROUTER: Final = Target(
    own=re.compile("openrouter:web_search"),
    keeps=frozenset({"allowed", "blocked", "place", "context"}),
    write=_openrouter,
    choose=lambda others: UNSET if others else ToolChoice(mode="required"),
    either=True,
    source="https://openrouter.ai/docs/guides/features/server-tools/web-search",
)
