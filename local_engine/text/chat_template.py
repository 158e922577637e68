"""Render conversations to text with the model's chat template."""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false

import re
from typing import cast

import msgspec
from jinja2 import TemplateError
from msgspec import UNSET, UnsetType
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from local_engine.text.control_tokens import ControlTokens, Rendered
from schemas.errors import InvalidRequest
from schemas.messages import FunctionTool, Message, TextPart, Tool, ToolCall

JSON = dict[str, object]
_CODE = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
"""The parts of a template that Jinja executes."""


REFUSALS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
    MemoryError,
)
"""Exceptions that a template can raise for a conversation it does not support."""


class ChatTemplate:
    """The model's chat template; a model without one rejects chats. source: the template's text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        template = cast(str | dict[str, str] | None, tokenizer.chat_template)
        source = template if isinstance(template, str) else "".join((template or {}).values())
        self.source = source
        self._exists = bool(template)
        self._knows_developers = "developer" in source

    def render(self, messages: tuple[Message, ...], tools: tuple[Tool, ...] = ()) -> str:
        """Return the prompt up to the assistant's turn, with special tokens as text."""
        return self._apply(self._read(messages, tools))

    def rendered(
        self, messages: tuple[Message, ...], tools: tuple[Tool, ...], controls: ControlTokens
    ) -> Rendered:
        """Return the same, with the template's control tokens distinguished from text."""
        return controls.render(self._read(messages, tools), self._apply)

    def _read(self, messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> list[list[JSON]]:
        """Return the conversation and its tools in the form that templates expect.

        Raises InvalidRequest for parts that are not text, tools that the template does not
        support, and a model without a template.
        """
        if not self._exists:
            raise InvalidRequest(
                "messages: this model has no chat template; use completions instead",
                param="messages",
            )
        conversation = [self._turn(message, place) for place, message in enumerate(messages)]
        if tools and not self.knows("tools"):
            raise InvalidRequest(
                "tools: this model's chat template does not support tools; remove them or use "
                "a model that was trained to call functions",
                param="tools",
            )
        return [conversation, [_described(tool, place) for place, tool in enumerate(tools)]]

    def _apply(self, read: object) -> str:
        conversation, described = cast(list[list[JSON]], read)
        try:
            text = self._tokenizer.apply_chat_template(
                cast(list[dict[str, str]], conversation),
                tools=described or None,  # pyright: ignore[reportArgumentType]  # its list is invariant
                tokenize=False,
                add_generation_prompt=True,
            )
        except RecursionError as exc:
            raise InvalidRequest(
                "messages: a value in this conversation is nested too deep for the model's chat "
                "template; flatten it",
                param="messages",
            ) from exc
        except REFUSALS as exc:
            raise InvalidRequest(
                f"messages: the model's chat template rejects this conversation: {exc}",
                param="messages",
            ) from exc
        return cast(str, text)

    def knows(self, variable: str) -> bool:
        """True if the template reads a variable of this name."""
        return re.search(rf"\b{variable}\b", "".join(_CODE.findall(self.source))) is not None

    def _turn(self, message: Message, place: int) -> JSON:
        role = str(message.role)
        if role == "developer" and not self._knows_developers:
            role = "system"
        turn: JSON = {
            "role": "tool" if role == "function" else role,
            "content": _content(message, place),
        }
        optional: dict[str, str | UnsetType] = {
            "name": message.name,
            "tool_call_id": message.tool_call_id,
            "reasoning_content": message.reasoning,
        }
        turn.update({key: value for key, value in optional.items() if value is not UNSET})
        if message.tool_calls:
            turn["tool_calls"] = [
                _call(call, f"messages[{place}].tool_calls[{number}]")
                for number, call in enumerate(message.tool_calls)
            ]
        return turn


def _content(message: Message, place: int) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for number, part in enumerate(content):
        if not isinstance(part, TextPart):
            where = f"messages[{place}].content[{number}]"
            raise InvalidRequest(
                f"{where}: this model supports text only; remove the {_kind(part)}", param=where
            )
        texts.append(part.text)
    return "".join(texts)


def _kind(part: msgspec.Struct) -> str:
    return str(getattr(part, "type", "") or part.__struct_config__.tag)


def _call(call: ToolCall, where: str) -> JSON:
    """Templates expect the arguments as a mapping; text that is not JSON is passed unchanged."""
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, object])
    except RecursionError as exc:
        raise _too_deep(f"{where}.function.arguments") from exc
    except msgspec.DecodeError:
        return _function(call.id, {"name": call.name, "arguments": call.arguments})
    return _function(call.id, {"name": call.name, "arguments": arguments})


def _function(id: str, function: JSON) -> JSON:
    return {"id": id, "type": "function", "function": function}


def _described(tool: Tool, place: int) -> JSON:
    if not isinstance(tool, FunctionTool):
        raise InvalidRequest(
            f"tools[{place}]: this model supports functions only, not {tool.type}",
            param=f"tools[{place}]",
        )
    function: JSON = {"name": tool.name}
    if tool.description is not UNSET:
        function["description"] = tool.description
    parameters = tool.parameters
    try:
        function["parameters"] = (
            {"type": "object", "properties": {}}
            if parameters is UNSET
            else msgspec.json.decode(parameters, type=dict[str, object])
        )
    except RecursionError as exc:
        raise _too_deep(f"tools[{place}].function.parameters") from exc
    except msgspec.DecodeError as exc:
        field = f"tools[{place}].function.parameters"
        raise InvalidRequest(
            f"{field}: must be a JSON schema (an object): {exc}", param=field
        ) from exc
    return {"type": "function", "function": function}


def _too_deep(field: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: nested too deep; flatten it", param=field)
