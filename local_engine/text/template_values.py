"""The values that a chat template gets for a conversation, and the errors that it can raise.

Shared by the engine and by the gateway's own tokenizer bridge, so that both render the same text
and reject the same conversations with the same words; it imports neither torch nor transformers.
https://huggingface.co/docs/transformers/chat_templating
"""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

import msgspec
from jinja2 import TemplateError

from strowger_gateway.local_engine.text.template_meter import TemplateTooLarge
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message, TextPart, ToolCall
from strowger_gateway.schemas.system_messages import with_joined_head, with_later_in_place

JSON = dict[str, object]

_Result = TypeVar("_Result")

_CODE = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
"""The parts of a template that Jinja executes."""

_REFUSALS = (
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


_BRIEF = "Be brief and kind."


def takes_developers(code: str, render: Callable[[list[JSON]], str]) -> bool:
    """Return whether a template shows what a developer says.

    Some name the role only to refuse it, or pass over it. code: the template's executed parts.
    render: applies it to turns; raises InvalidRequest for those that it refuses.
    """
    if not names(code, "developer"):
        return False
    turns: list[JSON] = [
        {"role": "developer", "content": _BRIEF},
        {"role": "user", "content": "Why?"},
    ]
    try:
        return _BRIEF in render(turns)
    except InvalidRequest:
        return False


def executed_code(source: str) -> str:
    """Return the parts of a template that Jinja executes."""
    return "".join(_CODE.findall(source))


def names(code: str, word: str) -> bool:
    """Return whether the executed code of a template contains this word."""
    return re.search(rf"\b{word}\b", code) is not None


class TemplateRefusal(InvalidRequest):
    """The template needs more than any conversation should."""


@contextmanager
def template_errors() -> Generator[None, None, None]:
    """Raise InvalidRequest for whatever a template raises for a conversation."""
    try:
        yield
    except TemplateTooLarge as exc:
        raise TemplateRefusal(
            f"messages: the model's chat template takes too much for this conversation: {exc}; "
            "shorten it, or use completions instead",
            param="messages",
        ) from exc
    except RecursionError as exc:
        raise InvalidRequest(
            "messages: this conversation is nested too deeply for the model's chat template; "
            "flatten it",
            param="messages",
        ) from exc
    except _REFUSALS as exc:
        raise InvalidRequest(
            f"messages: the model's chat template rejects this conversation: {exc}",
            param="messages",
        ) from exc


def with_one_system(
    messages: tuple[Message, ...], render: Callable[[tuple[Message, ...]], _Result]
) -> _Result:
    """Render a conversation; if the template refuses it, with one system message at its beginning.

    A template that takes several, or later ones, gets what the client sent. Raises InvalidRequest
    for what the template refuses in both forms.
    """
    try:
        return render(messages)
    except TemplateRefusal:
        raise
    except InvalidRequest:
        plain = tuple(with_later_in_place(with_joined_head(messages)))
        if all(new is old for new, old in zip(plain, messages, strict=False)):
            raise
        with suppress(InvalidRequest):
            return render(plain)
        raise


def text_of(message: Message, where: str) -> str:
    """Return the text of a message. where: its path, such as `messages[2]`.

    Raises InvalidRequest naming the first part that is not text.
    """
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for number, part in enumerate(content):
        if not isinstance(part, TextPart):
            path = f"{where}.content[{number}]"
            kind = str(getattr(part, "type", "") or part.__struct_config__.tag)
            raise InvalidRequest(
                f"{path}: this model supports text only; remove the {kind}", param=path
            )
        texts.append(part.text)
    return "".join(texts)


def value_of(call: ToolCall, where: str) -> JSON:
    """Return a call with its arguments as a mapping, as templates expect; other text unchanged.

    where: its path. Raises InvalidRequest for arguments that are nested too deeply.
    """
    function: JSON = {"name": call.name, "arguments": call.arguments}
    try:
        function["arguments"] = msgspec.json.decode(call.arguments, type=dict[str, object])
    except RecursionError as exc:
        raise too_deep(f"{where}.function.arguments") from exc
    except msgspec.DecodeError:
        pass  # text that is not JSON reaches the template as it is
    return {"id": call.id, "type": "function", "function": function}


def too_deep(field: str) -> InvalidRequest:
    """Return the error for a field whose JSON is nested too deeply."""
    return InvalidRequest(f"{field}: nested too deeply; flatten it", param=field)
