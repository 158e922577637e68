"""Render conversations to text with the model's chat template."""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false

from typing import cast

import msgspec
from jinja2 import TemplateSyntaxError
from msgspec import UNSET, UnsetType
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from strowger_gateway.local_engine.text.bounded_template import BoundedTemplate
from strowger_gateway.local_engine.text.control_tokens import (
    ControlTokens,
    Rendered,
    with_beginning,
)
from strowger_gateway.local_engine.text.template_values import (
    JSON,
    TemplateRefusal,
    executed_code,
    names,
    takes_developers,
    template_errors,
    text_of,
    too_deep,
    value_of,
    with_one_system,
)
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest
from strowger_gateway.schemas.messages import FunctionTool, Message, Tool


class ChatTemplate:
    """The model's chat template; a model without one rejects chats. source: the template's text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokens = cast(dict[str, object], tokenizer.special_tokens_map)
        template = cast(str | dict[str, str] | None, tokenizer.chat_template)
        sources = {"default": template} if isinstance(template, str) else template or {}
        self.source = source = "".join(sources.values())
        self._templates = {name: _compiled(text) for name, text in sources.items()}
        self._exists = bool(template)
        if self._exists:
            self._check()
        self._takes_developers = takes_developers(
            executed_code(source), lambda turns: self._apply([turns, []])
        )

    def render(self, messages: tuple[Message, ...], tools: tuple[Tool, ...] = ()) -> str:
        """Return the prompt up to the assistant's turn, with special tokens as text."""
        return with_one_system(messages, lambda taken: self._apply(self._read(taken, tools)))

    def rendered(
        self,
        messages: tuple[Message, ...],
        tools: tuple[Tool, ...],
        controls: ControlTokens,
        begun: str = "",
    ) -> Rendered:
        """Return the same, with the template's control tokens distinguished from text.

        begun: the beginning of the assistant's answer, behind the prompt.
        """

        def render(taken: tuple[Message, ...]) -> Rendered:
            read = self._read(taken, tools)
            if not begun:
                return controls.render(read, self._apply)
            return controls.render([read, begun], with_beginning(self._apply))

        return with_one_system(messages, render)

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
        """Render as transformers' `apply_chat_template` does, in bounded time and memory."""
        conversation, described = cast(list[list[JSON]], read)
        with template_errors():
            return self._chosen(tools=bool(described)).render(
                messages=conversation,
                tools=described or None,
                documents=None,
                add_generation_prompt=True,
                **self._tokens,
            )

    def _chosen(self, *, tools: bool) -> BoundedTemplate:
        for name in ("tool_use",) * tools + ("default",):
            found = self._templates.get(name)
            if isinstance(found, TemplateSyntaxError):
                raise found
            if found is not None:
                return found
        raise ValueError(f"it has templates named {', '.join(self._templates)} and no default")

    def _check(self) -> None:
        """Render small conversations. Raises InvalidConfig for a template without bounds."""
        question: JSON = {"role": "user", "content": "Why?"}
        answer: JSON = {"role": "assistant", "content": "Because."}
        system: JSON = {"role": "system", "content": "Be brief."}
        for conversation in ([question], [system, question, answer, question]):
            try:
                self._apply([conversation, []])
            except TemplateRefusal as exc:
                raise InvalidConfig((f"the chat template cannot be used: {exc.message}",)) from exc
            except InvalidRequest:
                continue  # it may want other roles

    def knows(self, variable: str) -> bool:
        """True if the template reads a variable of this name."""
        return names(executed_code(self.source), variable)

    def _turn(self, message: Message, place: int) -> JSON:
        role = str(message.role)
        if role == "developer" and not self._takes_developers:
            role = "system"
        turn: JSON = {
            "role": "tool" if role == "function" else role,
            "content": text_of(message, f"messages[{place}]"),
        }
        optional: dict[str, str | UnsetType] = {
            "name": message.name,
            "tool_call_id": message.tool_call_id,
            "reasoning_content": message.reasoning,
        }
        turn.update({key: value for key, value in optional.items() if value is not UNSET})
        if message.reasoning is not UNSET:
            turn["thinking"] = message.reasoning
        if message.tool_calls:
            turn["tool_calls"] = [
                value_of(call, f"messages[{place}].tool_calls[{number}]")
                for number, call in enumerate(message.tool_calls)
            ]
        return turn


def _compiled(source: str) -> BoundedTemplate | TemplateSyntaxError:
    try:
        return BoundedTemplate(source)
    except TemplateSyntaxError as exc:
        return exc  # it refuses conversations, and the model still completes prompts


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
        raise too_deep(f"tools[{place}].function.parameters") from exc
    except msgspec.DecodeError as exc:
        field = f"tools[{place}].function.parameters"
        raise InvalidRequest(
            f"{field}: must be a JSON schema (an object): {exc}", param=field
        ) from exc
    return {"type": "function", "function": function}
