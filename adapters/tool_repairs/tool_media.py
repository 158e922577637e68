"""Images, files and audio of tool results, for vendors whose results hold only text.

They follow the results as the user's content, each after the id of its call, so that the images of
several results stay distinct.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import rewritten
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import TOOL_MEDIA
from strowger_gateway.schemas.messages import (
    AudioPart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolCall,
)
from strowger_gateway.schemas.requests import ChatRequest, Request

MOVED: Final = "The content of this result follows the results."
"""The text of a result that had none."""


def _with_text_results(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not any(map(_has_more, request.messages)):
        return None
    messages = tuple(_moved(request.messages))
    return Repaired(request=replace(request, messages=messages), changed=("messages[].content[]",))


def _moved(messages: Sequence[Message]) -> Iterator[Message]:
    waiting: list[Part] = []
    for one in messages:
        if waiting and one.role != "tool":
            if one.role == "user" and one.raw is UNSET:
                yield replace(one, content=(*waiting, *_parts(one)))
                waiting = []
                continue
            yield Message(role="user", content=tuple(waiting))
            waiting = []
        if _has_more(one):
            others = [part for part in _parts(one) if not isinstance(part, TextPart)]
            waiting += [TextPart(text=f"{_kind(others)} of call {one.tool_call_id}:"), *others]
            one = _text_alone(one)
        yield one
    if waiting:
        yield Message(role="user", content=tuple(waiting))


def _has_more(one: Message) -> bool:
    return (
        one.role == "tool"
        and isinstance(one.content, tuple)
        and not all(isinstance(part, TextPart) for part in one.content)
    )


def _text_alone(one: Message) -> Message:
    texts = tuple([part for part in _parts(one) if isinstance(part, TextPart)])
    if len(texts) > 1:
        sent = [part.raw if part.raw is not UNSET else _text(part) for part in texts]
        return rewritten(one, {"content": sent}, content=texts)
    text = texts[0].text if texts and texts[0].text else MOVED
    return rewritten(one, {"content": text}, content=text)


def _text(part: TextPart) -> object:
    return {"type": "text", "text": part.text}


def _kind(parts: Sequence[Part]) -> str:
    if all(isinstance(part, ImagePart) for part in parts):
        return "Image" if len(parts) == 1 else "Images"
    return "Audio" if all(isinstance(part, AudioPart) for part in parts) else "File"


def _parts(one: Message) -> tuple[Part, ...]:
    if isinstance(one.content, tuple):
        return one.content
    return (TextPart(text=one.content),) if one.content else ()


def text_results(source: str, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for a vendor. source: where it says that a result is text."""
    return Repair(
        name="tool_media",
        about="moves images, files and audio from results to the user's next message",
        source=source,
        facts=TOOL_MEDIA,
        apply=_with_text_results,
        models=models,
        example=ChatRequest(
            "m",
            (
                Message(role="user", content="What is on the screen?"),
                Message(
                    role="assistant",
                    tool_calls=(ToolCall(id="call00001", name="screen", arguments="{}"),),
                ),
                Message(
                    role="tool",
                    tool_call_id="call00001",
                    content=(ImagePart(url="data:image/png;base64,iVBORw0KGgo="),),
                ),
            ),
        ),
    )


TEXT_RESULTS: Final = text_results(
    "https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages"
)
"""OpenAI's dialect: a message of role `tool` has text, or text parts."""
