"""Formats of answers that a vendor does not have, or has only if the conversation speaks of JSON.

An instruction is at the beginning, where it is the same in every turn, because vendors cache
prompts by their beginnings.
"""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import rewritten, with_content
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, Undo, every_model
from strowger_gateway.schemas.content_facts import FORMAT
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    ResponseFormat,
    TextPart,
    ToolChoice,
    text_of,
)
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.system_messages import SYSTEM

Models = Callable[[str], bool]

_NOTHING: Final = (b'""', b"null")
_WORD: Final = "json"
_ONLY_JSON: Final = "Answer in JSON."
_OBJECT: Final = "Answer with one JSON object and nothing else."
_SCHEMA: Final = "Answer with one JSON object that is valid for this JSON schema:"

TOOL: Final = "answer_in_json"
_ABOUT_TOOL: Final = (
    "Takes the answer to the user, as the JSON object that the conversation asks for."
)
_ANY: Final = Raw(b'{"type":"object","properties":{},"additionalProperties":true}')
"""Bedrock requires the properties of an object, although none is known."""


def json_word(source: str, models: Models = every_model, *, apart: bool = False) -> Repair:
    """Return the rule for a vendor whose JSON mode requires the word JSON in the conversation.

    apart: as a message of its own, because neither the vendor's own instructions nor results count.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or _kind(request) != "json_object":
            return None
        counted = request.messages[_uncounted(request) :] if apart else request.messages
        if any(
            _WORD in text_of(one).lower() for one in counted if not (apart and one.role == "tool")
        ):
            return None
        return Repaired(
            request=instructed(request, _ONLY_JSON, apart=apart), changed=("messages[]",)
        )

    return Repair(
        name="json_word",
        about="asks for JSON in words, which JSON mode requires",
        source=source,
        facts=FORMAT,
        apply=apply,
        example=_JSON,
        models=models,
        light=True,
    )


def described_schema(source: str, models: Models = every_model, example: str = "m") -> Repair:
    """Return the rule for a vendor with JSON mode, but without schemas. example: such a model."""

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or _kind(request) != "json_schema":
            return None
        sent = replace(request, response_format=ResponseFormat(type="json_object"))
        return Repaired(request=instructed(sent, described(request)), changed=("response_format",))

    return Repair(
        name="described_schema",
        about="describes the schema of the answer in words, and asks for any JSON object",
        source=source,
        facts=FORMAT,
        apply=apply,
        example=_WITH_SCHEMA,
        example_model=example,
        loss="constraint",
        models=models,
    )


def described_json(source: str, models: Models) -> Repair:
    """Return the rule for models without JSON mode."""

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or _kind(request) != "json_object":
            return None
        sent = replace(request, response_format=UNSET)
        return Repaired(request=instructed(sent, _OBJECT), changed=("response_format",))

    return Repair(
        name="described_json",
        about="asks for a JSON object in words",
        source=source,
        facts=FORMAT,
        apply=apply,
        example=_JSON,
        loss="constraint",
        models=models,
    )


def json_by_tool(source: str, models: Models) -> Repair:
    """Return the rule for models without JSON mode that can be forced to call a function.

    The call's arguments are the answer's text. A client that forces a function itself gets its call
    instead of text.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or _kind(request) != "json_object":
            return None
        sent = replace(request, response_format=UNSET)
        choice = request.tool_choice
        mode = choice.mode if isinstance(choice, ToolChoice) else "auto"
        tools = request.tools or ()
        if tools and mode not in ("auto", "none"):
            return Repaired(request=sent, changed=("response_format",))
        name = TOOL
        while any(isinstance(one, FunctionTool) and one.name == name for one in tools):
            name += "_"
        tool = FunctionTool(name=name, description=_ABOUT_TOOL, parameters=_ANY)
        free = bool(tools) and mode == "auto"
        forced = ToolChoice(mode="required") if free else ToolChoice(mode="named", name=name)
        sent = replace(sent, tools=(*tools, tool), tool_choice=forced)
        return Repaired(request=sent, changed=("response_format",), undo=Undo(answer_tool=name))

    return Repair(
        name="json_by_tool",
        about="gets a JSON object as the arguments of a function that the model has to call",
        source=source,
        facts=FORMAT,
        apply=apply,
        example=_JSON,
        models=models,
    )


def _kind(request: ChatRequest) -> str:
    form = request.response_format
    return form.type if isinstance(form, ResponseFormat) else ""


def described(request: ChatRequest) -> str:
    """Return the instruction to answer in the request's format, which is JSON."""
    form = request.response_format
    schema = form.schema if isinstance(form, ResponseFormat) else UNSET
    return f"{_SCHEMA}\n{bytes(schema).decode()}" if isinstance(schema, Raw) else _OBJECT


def _uncounted(request: ChatRequest) -> int:
    """Return how many messages are `instructions`, in which the Responses API does not look."""
    given = None if request.original is None else request.original.fields.get("instructions")
    return int(given is not None and bytes(given) not in _NOTHING)


def instructed(request: ChatRequest, text: str, *, apart: bool = False) -> ChatRequest:
    """Return the request with one more instruction, in its first system message if it has one."""
    first = request.messages[0] if request.messages else None
    if apart or first is None or first.role not in SYSTEM:
        head = Message(role="system", content=text)
        return replace(request, messages=(head, *request.messages))
    return replace(request, messages=(_longer(first, text), *request.messages[1:]))


def _longer(one: Message, text: str) -> Message:
    if isinstance(one.content, tuple):
        return with_content(one, (*one.content, TextPart(text=f"\n\n{text}")))
    longer = f"{one.content}\n\n{text}" if one.content else text
    return rewritten(one, {"content": longer}, content=longer)


_USER: Final = (Message(role="user", content="List three colours."),)
_JSON: Final = ChatRequest("m", _USER, response_format=ResponseFormat(type="json_object"))
_WITH_SCHEMA: Final = ChatRequest(
    "m",
    _USER,
    response_format=ResponseFormat(
        type="json_schema",
        name="colours",
        schema=Raw(b'{"type":"object","properties":{"colours":{"type":"array"}}}'),
    ),
)
