"""Repair rules for hosted web search: another vendor's tool becomes the backend's own.

A model that may search but need not can answer without, so a search that a backend does not have is
left out and named. A client that forces a search gets a refusal: without it the answer would be
another one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import json_of
from strowger_gateway.adapters.repairs.rule import Aim, Loss, Repair, Repaired
from strowger_gateway.adapters.web_search.settings import forces_search, settings_of
from strowger_gateway.adapters.web_search.targets import Target
from strowger_gateway.schemas.content_facts import EXTRA, OPAQUE
from strowger_gateway.schemas.messages import FunctionTool, Message, OpaqueTool, Tool
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.searches import is_search

DROPPED: Final = "tools[].web_search"
"""What a search that is left out is called where it is reported."""

OPTIONS: Final = "web_search_options"
"""The field of chat completions that makes a model search.
https://platform.openai.com/docs/api-reference/chat/create#chat-create-web_search_options"""

_USER: Final = (Message(role="user", content="What is new?"),)
_GOOGLES: Final = b'{"type":"googleSearch"}'
_OFFLINE: Final = b'{"type":"googleSearch","external_web_access":false}'


def _example(raw: bytes, *others: Tool) -> ChatRequest:
    tool = OpaqueTool(type="googleSearch", raw=Raw(raw))
    return ChatRequest("m", _USER, tools=(*others, tool))


def web_search(target: Target) -> tuple[Repair, ...]:
    """Return the rules of a vendor that searches: one may lose what the client ruled out."""
    return (
        _rule(
            target,
            "web_search_limits",
            "constraint",
            "asks for the vendor's own web search, without the limits on hosts and on access to "
            "the web that it does not have",
            _example(_OFFLINE),
        ),
        _rule(
            target,
            "web_search",
            "hint",
            "asks for the vendor's own web search where the client asks for another vendor's",
            _example(_GOOGLES, FunctionTool(name="look_up")),
        ),
    )


def _rule(target: Target, name: str, loss: Loss, about: str, example: ChatRequest) -> Repair:
    def apply(request: Request, _: Aim) -> Repaired | None:
        return _translated(request, target, limits=loss == "constraint")

    return Repair(
        name=name,
        about=about,
        source=target.source,
        facts=OPAQUE,
        apply=apply,
        example=example,
        loss=loss,
    )


def _translated(request: Request, target: Target, *, limits: bool) -> Repaired | None:
    """Replace the first search of another vendor; the vendor takes no second one.

    limits: do so only if it loses limits; otherwise, only if it loses none.
    """
    if not isinstance(request, ChatRequest):
        return None
    tools = request.tools or ()
    foreign = [one for one in tools if is_search(one) and not target.is_own(one)]
    if not foreign or not isinstance(foreign[0], OpaqueTool):
        return None
    lost = target.lost(settings_of(foreign[0].raw))
    if limits != any(one.limits for one in lost):
        return None
    has_own = len(foreign) < sum(is_search(one) for one in tools)
    if has_own or (target.clashes and _has_function(tools, "web_search")):
        return Repaired(request=without(request, foreign), left_out=(DROPPED,))
    own = target.tool(settings_of(foreign[0].raw))
    kept = [own if one is foreign[0] else one for one in tools]
    sent = replace(
        request,
        tools=tuple([one for one in kept if one not in foreign]),
        written=_written(request, target.fields(settings_of(foreign[0].raw))),
    )
    changed: tuple[str, ...] = ("tools[]",)
    left_out = tuple([one.path for one in lost])
    if forces_search(request):
        choice = target.choose(len(sent.tools or ()) > 1)
        sent = replace(sent, tool_choice=choice)
        if choice is UNSET:
            left_out = (*left_out, "tool_choice")
        else:
            changed = (*changed, "tool_choice")
    return Repaired(request=sent, changed=changed, left_out=left_out)


def _written(request: ChatRequest, fields: Mapping[str, object]) -> dict[str, Raw] | None:
    """Return the fields that the gateway adds; what the client wrote itself goes before."""
    added = {name: json_of(one) for name, one in fields.items() if name not in request.extra}
    return {**(request.written or {}), **added} if added else request.written


def web_search_options(target: Target) -> Repair:
    """Return the rule for `web_search_options` at a vendor that has a tool instead."""

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or OPTIONS not in request.extra:
            return None
        settings = settings_of(request.extra[OPTIONS])
        tools: tuple[Tool, ...] = request.tools or ()
        if not any(is_search(one) for one in tools):
            tools = (*tools, target.tool(settings))
        extra = {name: raw for name, raw in request.extra.items() if name != OPTIONS}
        return Repaired(
            request=replace(request, tools=tools, extra=extra),
            changed=(OPTIONS,),
            left_out=tuple([one.path for one in target.lost(settings)]),
        )

    return Repair(
        name="web_search_options",
        about="asks for a web search with the vendor's tool instead of `web_search_options`",
        source=target.source,
        facts=EXTRA,
        apply=apply,
        example=ChatRequest("m", _USER, extra={OPTIONS: Raw(b'{"search_context_size":"low"}')}),
        loss="hint",
        fields=(OPTIONS,),
    )


def _without_options(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or OPTIONS not in request.extra:
        return None
    extra = {name: raw for name, raw in request.extra.items() if name != OPTIONS}
    return Repaired(request=replace(request, extra=extra), left_out=(OPTIONS,))


NO_OPTIONS: Final = Repair(
    name="web_search_options",
    about="leaves out `web_search_options` at a backend that does not search",
    source="https://github.com/router-for-me/CLIProxyAPI/issues/364",
    facts=EXTRA,
    apply=_without_options,
    example=ChatRequest("m", _USER, extra={OPTIONS: Raw(b"{}")}),
    loss="constraint",
    fields=(OPTIONS,),
)
"""The rule of a backend that neither searches nor takes fields that we do not know."""


def without(request: ChatRequest, tools: Sequence[Tool]) -> ChatRequest:
    """Return the request without these tools, and without what it says of tools if none is left."""
    kept = tuple([one for one in request.tools or () if one not in tools])
    if kept:
        return replace(request, tools=kept)
    return replace(request, tools=UNSET, tool_choice=UNSET, parallel_tool_calls=UNSET)


def no_web_search(*, own: bool) -> Repair:
    """Return the rule of a backend that does not search.

    own: it may know types of tools that we do not, so those of chat completions are sent to it.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or forces_search(request):
            return None
        found = [
            one
            for one in request.tools or ()
            if isinstance(one, OpaqueTool) and is_search(one) and (one.dialect or not own)
        ]
        if not found:
            return None
        return Repaired(request=without(request, found), left_out=(DROPPED,))

    return Repair(
        name="web_search",
        about=f"leaves out a web search that {'another API has' if own else 'a vendor runs'}, "
        "unless the client forces it",
        source="https://github.com/router-for-me/CLIProxyAPI/issues/364",
        facts=OPAQUE,
        apply=apply,
        example=ChatRequest(
            "m",
            _USER,
            tools=(
                FunctionTool(name="look_up"),
                OpaqueTool(
                    type="web_search",
                    raw=Raw(b'{"type":"web_search"}'),
                    dialect="openai-responses",
                ),
            ),
        ),
        loss="constraint",
    )


def _has_function(tools: Sequence[Tool], name: str) -> bool:
    return any(isinstance(one, FunctionTool) and one.name == name for one in tools)
