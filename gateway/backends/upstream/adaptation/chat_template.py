"""Render conversations with the model's own chat template, as transformers does.

https://huggingface.co/docs/transformers/chat_templating
"""

from collections.abc import Callable, Mapping
from datetime import datetime

import jinja2
from msgspec import UNSET

from strowger_gateway.local_engine.text.bounded_template import BoundedTemplate
from strowger_gateway.local_engine.text.control_tokens import (
    ControlTokens,
    Rendered,
    with_beginning,
)
from strowger_gateway.local_engine.text.template_values import (
    JSON,
    executed_code,
    names,
    takes_developers,
    template_errors,
    text_of,
    value_of,
    with_one_system,
)
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest
from strowger_gateway.schemas.messages import Message, thinking_of


class ChatTemplate:
    """One model's template, compiled. Safe to call from any thread. source: the template's text."""

    def __init__(
        self,
        source: str,
        variables: Mapping[str, str],
        *,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """variables: special tokens by name (`bos_token`). now: local time, for `strftime_now`.

        Raises InvalidConfig for a template that cannot be compiled.
        """
        try:
            self._template = BoundedTemplate(source, now)
        except jinja2.TemplateSyntaxError as exc:
            raise InvalidConfig(
                (f"invalid chat template, line {exc.lineno}: {exc.message}",)
            ) from exc
        self.source = source
        self._variables = dict(variables)
        self._code = executed_code(source)
        self._developers: bool | None = None

    def render(self, messages: tuple[Message, ...]) -> str:
        """Return the prompt up to where the assistant starts, special tokens spelled out."""
        return with_one_system(messages, lambda taken: self._apply(self._read(taken)))

    def rendered(
        self, messages: tuple[Message, ...], controls: ControlTokens, begun: str = ""
    ) -> Rendered:
        """Return the same, with the template's control tokens separate from the text.

        begun: the beginning of the assistant's answer, behind the prompt.
        """

        def render(taken: tuple[Message, ...]) -> Rendered:
            turns = self._read(taken)
            if not begun:
                return controls.render(turns, self._apply)
            return controls.render([turns, begun], with_beginning(self._apply))

        return with_one_system(messages, render)

    def _read(self, messages: tuple[Message, ...]) -> list[JSON]:
        """Return the conversation in the format of templates.

        Raises InvalidRequest for parts that are not text, for calls that the template would omit,
        and for whatever the template itself rejects.
        """
        return [self._turn(message, place) for place, message in enumerate(messages)]

    def _apply(self, turns: object) -> str:
        with template_errors():
            return self._template.render(
                messages=turns,
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self._variables,
            )

    def _knows(self, word: str) -> bool:
        """Return whether the executed part of the template contains this word."""
        return names(self._code, word)

    def _takes_developers(self) -> bool:
        if self._developers is None:
            self._developers = takes_developers(self._code, self._apply)
        return self._developers

    def _turn(self, message: Message, place: int) -> JSON:
        where = f"messages[{place}]"
        role = str(message.role)
        if role == "developer" and not self._takes_developers():
            role = "system"
        turn: JSON = {
            "role": "tool" if role == "function" else role,
            "content": text_of(message, where),
        }
        if message.name is not UNSET:
            turn["name"] = message.name
        if message.tool_call_id is not UNSET:
            turn["tool_call_id"] = message.tool_call_id
        if message.reasoning is not UNSET or message.thoughts:
            turn["reasoning_content"] = turn["thinking"] = thinking_of(message)
        if message.tool_calls:
            if not self._knows("tool_calls"):
                raise InvalidRequest(
                    f"{where}.tool_calls: this model's chat template does not support tool calls; "
                    "remove that message, or use a model that was trained to call functions",
                    param=f"{where}.tool_calls",
                )
            turn["tool_calls"] = [
                value_of(call, f"{where}.tool_calls[{number}]")
                for number, call in enumerate(message.tool_calls)
            ]
        return turn
