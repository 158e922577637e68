"""Content that has to be there, where a vendor refuses empty text and answers to no one.

Agents send empty texts for pressed keys, cancelled answers and tools without output, and begin a
compacted conversation with an answer. The history keeps them, so each later turn is refused too.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.form_repairs.answer_fields import has_content_beside
from strowger_gateway.adapters.repairs.rewriting import each_message, rewritten, with_content
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import BLANK, CALLS, LAST_ANSWER, LATE_USER, PARTS
from strowger_gateway.schemas.messages import Message, Part, TextPart, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, Request

NO_CONTENT: Final = "(no content)"
"""Stands for the text of a user who says nothing, as in Claude's own coding tool."""

CONTINUE: Final = "Continue."
_PREFIX: Final = b'"prefix"'
"""Begins the member with which some clients say that the model continues."""

_SYSTEM: Final = frozenset({"system", "developer"})
_USERS: Final = frozenset({"user", "tool", "function"})
_HELLO: Final = Message(role="user", content="Hello")


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _with_text(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    before = request.messages
    messages = tuple(_kept([_without_blanks(one) for one in before]))
    if len(messages) == len(before) and all(
        new is old for new, old in zip(messages, before, strict=True)
    ):
        return None
    return Repaired(request=replace(request, messages=messages), changed=("messages[].content",))


def _without_blanks(one: Message) -> Message:
    """Return the message without blank texts; its content is `None` if nothing is left."""
    content = one.content
    if isinstance(content, str):
        if not _is_blank(content) or one.role == "tool":
            return one
        return with_content(one, None)
    if content is None:
        return one
    parts = tuple([part for part in content if not _is_blank_part(part)])
    if content and len(parts) == len(content):
        return one
    return with_content(one, parts or ("" if one.role == "tool" else None))


def _is_blank_part(part: Part) -> bool:
    return isinstance(part, TextPart) and _is_blank(part.text)


def _kept(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages that say something. A turn of the user stays, if only as a placeholder."""
    said = False
    for place, one in enumerate(messages):
        if one.content is not None or _says_more(one):
            said = one.role in _USERS
            yield one
        elif one.role == "user" and not said and not _is_followed(messages, place):
            said = True
            yield with_content(one, NO_CONTENT)


def _says_more(one: Message) -> bool:
    if one.tool_calls or one.thoughts or one.reasoning:
        return True
    return one.role == "assistant" and has_content_beside(one)


def _is_followed(messages: Sequence[Message], place: int) -> bool:
    """Return whether the same turn of the user says something later."""
    for one in messages[place + 1 :]:
        if one.role not in _USERS:
            return False
        if one.content is not None:
            return True
    return False


def blank_text(source: str, *, with_calls: bool = False) -> Repair:
    """Return the rule for a vendor that refuses texts without any characters but white space.

    with_calls: its dialect writes the text of a turn with calls, too, where others leave a blank
    one out.
    """
    return Repair(
        name="blank_text",
        about=f"leaves out blank texts; a turn of the user without any other says {NO_CONTENT}",
        source=source,
        facts=BLANK | PARTS | CALLS if with_calls else BLANK | PARTS,
        apply=_with_text,
        example=ChatRequest(
            "m",
            (
                Message(role="user", content=" "),
                Message(role="assistant", content=""),
                Message(role="user", content=(TextPart(text="Hello"), TextPart(text=""))),
            ),
        ),
        light=True,
    )


def _with_results(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _result)
    return None if found is None else Repaired(request=found, changed=("messages[].content",))


def _result(one: Message) -> Message:
    content = one.content
    if one.role != "tool":
        return one
    if isinstance(content, tuple):
        says = any(not _is_blank_part(part) for part in content)
    else:
        says = content is not None and not _is_blank(content)
    return one if says else with_content(one, NO_CONTENT)


def blank_result(source: str) -> Repair:
    """Return the rule for a vendor that refuses blank results of tools."""
    return Repair(
        name="blank_result",
        about=f"sends {NO_CONTENT} as the result of a tool that returned nothing",
        source=source,
        facts=CALLS,
        apply=_with_results,
        example=ChatRequest(
            "m",
            (
                _HELLO,
                Message(
                    role="assistant",
                    tool_calls=(ToolCall(id="call00001", name="wait", arguments="{}"),),
                ),
                Message(role="tool", tool_call_id="call00001", content=""),
            ),
        ),
        light=True,
    )


def _with_user(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    messages = request.messages
    if not messages:
        return None
    begins = next((at for at, one in enumerate(messages) if one.role not in _SYSTEM), None)
    if begins is None:
        last = rewritten(messages[-1], {"role": "user"}, role="user")
        found = (*messages[:-1], last)
    elif messages[begins].role == "user":
        return None
    else:
        first = Message(role="user", content=NO_CONTENT)
        found = (*messages[:begins], first, *messages[begins:])
    return Repaired(request=replace(request, messages=found), changed=("messages[]",))


def user_first(source: str) -> Repair:
    """Return the rule for a vendor whose conversations begin with the user."""
    return Repair(
        name="user_first",
        about="begins the conversation with a turn of the user",
        source=source,
        facts=LATE_USER,
        apply=_with_user,
        example=ChatRequest("m", (Message(role="assistant", content="Hello!"), _HELLO)),
        light=True,
    )


def _trimmed(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.messages:
        return None
    last = request.messages[-1]
    content = last.content
    if last.role != "assistant" or last.tool_calls or not content:
        return None
    if isinstance(content, str):
        if content == content.rstrip():
            return None
        found = with_content(last, content.rstrip())
    else:
        part = content[-1]
        if not isinstance(part, TextPart) or part.text == part.text.rstrip():
            return None
        found = with_content(last, (*content[:-1], TextPart(text=part.text.rstrip())))
    return Repaired(
        request=replace(request, messages=(*request.messages[:-1], found)),
        changed=("messages[].content",),
    )


def trailing_space(
    source: str, models: Callable[[str], bool] = every_model, example: str = "model-1"
) -> Repair:
    """Return the rule for a vendor that refuses white space at the end of a begun answer."""
    return Repair(
        name="trailing_space",
        about="removes white space at the end of an answer that the client begins",
        source=source,
        facts=LAST_ANSWER,
        apply=_trimmed,
        example=ChatRequest("m", (_HELLO, Message(role="assistant", content="Yes, "))),
        example_model=example,
        models=models,
        light=True,
    )


def _continued(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or request.begun or not request.messages:
        return None
    last = request.messages[-1]
    if last.role != "assistant" or (isinstance(last.raw, Raw) and _PREFIX in bytes(last.raw)):
        return None
    messages = (*request.messages, Message(role="user", content=CONTINUE))
    return Repaired(request=replace(request, messages=messages), changed=("messages[]",))


def no_prefill(source: str, models: Callable[[str], bool], example: str) -> Repair:
    """Return the rule for models that do not continue an answer which the client begins."""
    return Repair(
        name="prefill",
        about=f"adds a turn of the user, {CONTINUE!r}, behind an answer that the client begins",
        source=source,
        facts=LAST_ANSWER,
        apply=_continued,
        example=ChatRequest("m", (_HELLO, Message(role="assistant", content="Yes,"))),
        example_model=example,
        loss="constraint",
        models=models,
    )
