"""A web search that a vendor runs, whichever API's tool asks for it.

OpenAI:     https://developers.openai.com/api/docs/guides/tools-web-search
Anthropic:  https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool
Google:     https://ai.google.dev/gemini-api/docs/google-search
OpenRouter: https://openrouter.ai/docs/guides/features/server-tools/web-search
xAI:        https://docs.x.ai/developers/tools/web-search
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.schemas.messages import FunctionTool, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.searches import is_search, is_search_type

Place = Mapping[str, str]
"""Members `city`, `region`, `country` (two letters) and `timezone` (IANA), those that are known."""

_PLACES: Final = ("city", "region", "country", "timezone")


class SearchSettings(Struct, frozen=True, kw_only=True):
    """allowed, blocked: host names, which include their subdomains; none: no limit.

    context:  how much of what is found the model reads: low, medium, high; "" for the default.
    max_uses: the most searches; 0: no limit.
    offline:  only what the vendor has stored may be read.
    """

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    place: Place = {}
    context: str = ""
    max_uses: int = 0
    offline: bool = False


class _Filters(Struct, frozen=True, kw_only=True):
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    excluded_domains: tuple[str, ...] | None = None
    exclude_domains: tuple[str, ...] | None = None
    excludeDomains: tuple[str, ...] | None = None  # noqa: N815  Google's name


class _Settings(_Filters, frozen=True, kw_only=True):
    """All names of all vendors: no two of them mean different things by one name."""

    filters: _Filters | None = None
    parameters: "_Settings | None" = None
    user_location: dict[str, Raw] | None = None
    search_context_size: str | None = None
    max_uses: int | None = None
    external_web_access: bool | None = None


class _Kind(Struct, frozen=True):
    type: str = ""


_settings: Final = msgspec.json.Decoder(_Settings)
_texts: Final = msgspec.json.Decoder(dict[str, Raw])
_text: Final = msgspec.json.Decoder(str)
_kind: Final = msgspec.json.Decoder(_Kind)


def settings_of(raw: Raw) -> SearchSettings:
    """Read a search tool, or `web_search_options`. A member that cannot be read is as not sent."""
    try:
        found = _settings.decode(raw)
    except (DecodeError, RecursionError):
        found = _readable(raw)
    within = found.parameters or _Settings()
    filters = found.filters or within.filters or _Filters()
    groups = (found, within, filters)
    return SearchSettings(
        allowed=_first([one.allowed_domains for one in groups]),
        blocked=_first(
            [
                domains
                for one in groups
                for domains in (
                    one.blocked_domains,
                    one.excluded_domains,
                    one.exclude_domains,
                    one.excludeDomains,
                )
            ]
        ),
        place=_place(found.user_location or within.user_location or {}),
        context=found.search_context_size or within.search_context_size or "",
        max_uses=found.max_uses or within.max_uses or 0,
        offline=found.external_web_access is False,
    )


def _readable(raw: Raw) -> _Settings:
    """Return the settings that can be read: one bad member must not lift the limits on hosts."""
    found = _Settings()
    try:
        members = _texts.decode(raw)
    except (DecodeError, RecursionError):
        return found
    for name in [one for one in _Settings.__struct_fields__ if one in members]:
        try:
            one = _settings.decode(b'{"%b":%b}' % (name.encode(), bytes(members[name])))
        except (DecodeError, RecursionError):
            continue
        found = replace(found, **{name: getattr(one, name)})
    return found


def forces_search(request: ChatRequest) -> bool:
    """Return whether the client lets the model do nothing but search."""
    choice, tools = request.tool_choice, request.tools or ()
    if not isinstance(choice, ToolChoice) or not any(is_search(one) for one in tools):
        return False
    functions = {one.name for one in tools if isinstance(one, FunctionTool)}
    if choice.mode == "named":
        return choice.name not in functions
    if choice.mode == "opaque" and isinstance(choice.raw, Raw):
        return is_search_type(_kind_of(choice.raw))
    return choice.mode == "required" and not functions


def _kind_of(raw: Raw) -> str:
    try:
        return _kind.decode(raw).type
    except (DecodeError, RecursionError):
        return ""


def _first(lists: list[tuple[str, ...] | None]) -> tuple[str, ...]:
    return next((one for one in lists if one), ())


def _place(fields: Mapping[str, Raw]) -> Place:
    """Return the known members; in chat completions they are one level deeper."""
    inner = fields.get("approximate")
    try:
        known = fields if inner is None else _texts.decode(inner)
        return {name: _text.decode(known[name]) for name in _PLACES if _is_text(known.get(name))}
    except (DecodeError, RecursionError):
        return {}


def _is_text(raw: Raw | None) -> bool:
    return raw is not None and bytes(memoryview(raw)[:1]) == b'"' and len(bytes(raw)) > len('""')
