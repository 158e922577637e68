"""Calls of OpenAI's hosted tools that ran in a container, when the client sends them back.

Such an item names its container. All clients share the operator's account, so a client that may
name containers could read another's files (adapters/client_fields/denied.py). What ran and what it
printed stay in the conversation, as a text of the model; the container does not.
https://platform.openai.com/docs/guides/tools-code-interpreter
"""

from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec
from msgspec import DecodeError, Raw

from strowger_gateway.adapters.openai_responses.wire import DIALECT
from strowger_gateway.adapters.repairs.rewriting import each_message, rebuilt
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import OPAQUE
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, TextPart
from strowger_gateway.schemas.requests import ChatRequest, Request

PATHS: Final = (
    "messages[].content[].container_id",
    "messages[].content[].environment.container_id",
)

_Fields = Mapping[str, object]
_object: Final = msgspec.json.Decoder(dict[str, object])


def _without_containers(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    calls = frozenset(_hosted_calls(request.messages))
    found = each_message(request, lambda one: _as_text(one, calls))
    return None if found is None else Repaired(request=found, changed=("messages[].content[]",))


def _hosted_calls(messages: Iterable[Message]) -> Iterable[str]:
    """Yield the ids of shell calls that ran in a container; their outputs are other items."""
    for message in messages:
        for fields in _items(message):
            environment = fields.get("environment")
            if isinstance(environment, dict) and "container_id" in environment:
                yield str(fields.get("call_id"))


def _items(message: Message) -> Iterable[_Fields]:
    for part in message.content if isinstance(message.content, tuple) else ():
        if isinstance(part, OpaquePart) and part.dialect == DIALECT:
            yield _read(part.raw)


def _as_text(message: Message, calls: frozenset[str]) -> Message:
    if not isinstance(message.content, tuple):
        return message
    parts = tuple([_part(part, calls) for part in message.content])
    same = all(new is old for new, old in zip(parts, message.content, strict=True))
    return message if same else rebuilt(message, content=parts)


def _part(part: Part, calls: frozenset[str]) -> Part:
    if not isinstance(part, OpaquePart) or part.dialect != DIALECT:
        return part
    fields = _read(part.raw)
    if part.type == "code_interpreter_call" and fields.get("container_id"):
        return TextPart(text=_shown("code_interpreter", fields.get("code"), _logs(fields)))
    if part.type == "shell_call" and str(fields.get("call_id")) in calls:
        ran = [_lines(action.get("commands")) for action in _dicts([fields.get("action")])]
        return TextPart(text=_shown("shell", None, ran))
    if part.type == "shell_call_output" and str(fields.get("call_id")) in calls:
        return TextPart(text=_shown("shell output", None, _outputs(fields)))
    return part


def _read(raw: Raw) -> _Fields:
    try:
        return _object.decode(raw)
    except (DecodeError, RecursionError):
        return {}


def _shown(tool: str, given: object, printed: Iterable[str]) -> str:
    pieces = [f"[{tool}]", given if isinstance(given, str) else "", *printed]
    return "\n".join(piece for piece in pieces if piece) + "\n"


def _logs(fields: _Fields) -> Iterable[str]:
    for output in _dicts(fields.get("outputs")):
        logs = output.get("logs")
        if isinstance(logs, str):
            yield logs


def _outputs(fields: _Fields) -> Iterable[str]:
    for output in _dicts(fields.get("output")):
        for name in ("stdout", "stderr"):
            value = output.get(name)
            if isinstance(value, str):
                yield value


def _lines(commands: object) -> str:
    given = cast("list[object]", commands) if isinstance(commands, list) else []
    return "\n".join(one for one in given if isinstance(one, str))


def _dicts(value: object) -> Iterable[_Fields]:
    for one in cast("list[object]", value) if isinstance(value, list) else []:
        if isinstance(one, dict):
            yield cast("_Fields", one)


CONTAINER_ITEMS: Final = Repair(
    name="container_item",
    about="sends what ran in a hosted container as text, without the container's id",
    source="https://platform.openai.com/docs/guides/tools-code-interpreter",
    facts=OPAQUE,
    apply=_without_containers,
    example=ChatRequest(
        "m",
        (
            Message(role="user", content="What is 6 times 7?"),
            Message(
                role="assistant",
                content=(
                    OpaquePart(
                        type="code_interpreter_call",
                        raw=Raw(
                            b'{"type":"code_interpreter_call","id":"ci_1","container_id":"cntr_1",'
                            b'"code":"print(6*7)","outputs":[{"type":"logs","logs":"42"}]}'
                        ),
                        dialect=DIALECT,
                    ),
                    TextPart(text="42"),
                ),
            ),
            Message(role="user", content="And plus 1?"),
        ),
    ),
    loss="hint",
    fields=PATHS,
)
