"""What models that think do not take at the same time: a forced call, or calls without reasoning.

Kimi, DeepSeek and Qwen think by default, so that every client meets this.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import json_of, rewritten, without_extra
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import CALLS, FORCED
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    ToolCall,
    ToolChoice,
    thinking_of,
)
from strowger_gateway.schemas.requests import ChatRequest, Request

DISABLED: Final[Mapping[str, Raw]] = {"thinking": Raw(b'{"type":"disabled"}')}
"""The switch of DeepSeek and Moonshot."""

NOT_ENABLED: Final[Mapping[str, Raw]] = {"enable_thinking": Raw(b"false")}
"""The switch of Qwen's models at Alibaba."""

_BLANK: Final = " "
"""Stands for reasoning that is not known. Kimi refuses an empty text.
https://github.com/charmbracelet/crush/issues/2696"""

_object: Final = msgspec.json.Decoder(dict[str, object]).decode
Models = Callable[[str], bool]


def forced_calls(
    source: str, off: Mapping[str, Raw], models: Models, example: str, *, thinks: Models
) -> Repair:
    """Return the rule for models that force no call while they think.

    off: the fields that switch thinking off. example: the name of such a model. thinks: whether a
    model thinks by default.
    """

    def apply(request: Request, aim: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or not _is_forced(request):
            return None
        asked = bool(request.reasoning_effort) or not off.keys().isdisjoint(request.extra)
        if is_off(request, off) or not (asked or thinks(aim.model)):
            return None
        sent = without_extra(request, *off)
        written = {**(request.written or {}), **off}
        sent = replace(sent, reasoning_effort=UNSET, written=written)
        return Repaired(request=sent, changed=("reasoning_effort",))

    return Repair(
        name="forced_call",
        about="switches thinking off if a call is forced, because the model does not do both",
        source=source,
        facts=FORCED,
        apply=apply,
        example=_FORCED,
        example_model=example,
        loss="hint",
        models=models,
        light=True,
    )


def _only_named(request: ChatRequest) -> ChatRequest:
    """Return the request with the function alone that the client names, if it names one."""
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice) or choice.mode != "named":
        return request
    named = [
        one
        for one in request.tools or ()
        if isinstance(one, FunctionTool) and one.name == choice.name
    ]
    return replace(request, tools=tuple(named)) if named else request


def one_of_one(source: str, models: Models, example: str) -> Repair:
    """Return the rule for models that think and force a call of any function, but of no single one.

    Only the function that the client names is offered.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or not isinstance(request.tool_choice, ToolChoice):
            return None
        found = _only_named(request)
        if found is request:
            return None
        sent = replace(found, tool_choice=ToolChoice(mode="required"))
        return Repaired(request=sent, changed=("tools", "tool_choice"))

    return Repair(
        name="one_function",
        about="offers only the function that is to be called, because none can be forced by name",
        source=source,
        facts=FORCED,
        apply=apply,
        example=_FORCED,
        example_model=example,
        models=models,
    )


def free_choice(source: str, models: Models, example: str) -> Repair:
    """Return the rule for models that cannot be forced to call.

    If the client names a function, the model is offered that one alone.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or not _is_forced(request):
            return None
        found = _only_named(request)
        return Repaired(
            request=replace(found, tool_choice=ToolChoice(mode="auto")),
            changed=("tool_choice",) if found is request else ("tools", "tool_choice"),
        )

    return Repair(
        name="free_choice",
        about="leaves the choice of a call to the model, which cannot be forced",
        source=source,
        facts=FORCED,
        apply=apply,
        example=_FORCED,
        example_model=example,
        loss="constraint",
        models=models,
    )


def missing_reasoning(
    source: str, off: Mapping[str, Raw], models: Models, example: str, *, every: bool = False
) -> Repair:
    """Return the rule for models that refuse calls of earlier turns without the reasoning for them.

    The calls are another model's, or the client does not keep reasoning. off: the fields that
    switch thinking off, with which nothing is missing. every: if there are calls, all turns of the
    assistant need reasoning.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or is_off(request, off):
            return None
        called = every and any(one.tool_calls for one in request.messages)
        messages = tuple(
            [
                _reasoned(one) if one.tool_calls or (called and one.role == "assistant") else one
                for one in request.messages
            ]
        )
        if all(new is old for new, old in zip(messages, request.messages, strict=True)):
            return None
        return Repaired(
            request=replace(request, messages=messages), changed=("messages[].reasoning_content",)
        )

    return Repair(
        name="missing_reasoning",
        about="sends a blank in place of reasoning that the model requires and the client has not",
        source=source,
        facts=CALLS,
        apply=apply,
        example=_CALLED,
        example_model=example,
        models=models,
        light=True,
    )


def is_off(request: ChatRequest, off: Mapping[str, Raw]) -> bool:
    """Return whether the client, or another rule, has switched thinking off."""
    sent = {**request.extra, **(request.written or {})}
    return any(name in sent and _same(sent[name], raw) for name, raw in off.items())


def _same(sent: Raw, off: Raw) -> bool:
    """Compare with the switch; an object may have more members."""
    if bytes(off)[:1] != b"{":
        return bytes(sent) == bytes(off)
    try:
        return _object(off).items() <= _object(sent).items()
    except (msgspec.DecodeError, RecursionError):
        return False


def _is_forced(request: ChatRequest) -> bool:
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice):
        return False
    if choice.mode == "opaque":  # a choice among several functions, forced or not
        return isinstance(choice.raw, Raw) and b'"required"' in bytes(choice.raw)
    return choice.mode in ("required", "named")


def _reasoned(one: Message) -> Message:
    if thinking_of(one):
        return one
    return rewritten(one, {"reasoning_content": json_of(_BLANK)}, reasoning=_BLANK)


_ASKED: Final = Message(role="user", content="What is the weather?")
_FORCED: Final = ChatRequest(
    "m",
    (_ASKED,),
    tools=(FunctionTool(name="weather"), FunctionTool(name="time")),
    tool_choice=ToolChoice(mode="named", name="weather"),
)
_CALLED: Final = ChatRequest(
    "m",
    (
        _ASKED,
        Message(
            role="assistant",
            tool_calls=(ToolCall(id="call00001", name="weather", arguments="{}"),),
        ),
        Message(role="tool", tool_call_id="call00001", content="Sunny."),
    ),
)
