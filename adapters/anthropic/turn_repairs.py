"""Rules of a conversation's turns: what Claude refuses in them, at Anthropic and at Bedrock.

Interrupted agents leave turns that are empty, or that consist of thinking, and the whole history is
sent again with every later turn, so that one such turn ends the conversation.
"""

from typing import Final

from msgspec.structs import replace

from adapters.anthropic.asked_thinking import asked
from adapters.anthropic.claude_models import always_thinks, claude, may_be_claude, takes_prefill
from adapters.form_repairs.arguments import call_arguments
from adapters.form_repairs.presence import blank_text, no_prefill, trailing_space, user_first
from adapters.repairs.rewriting import each_message
from adapters.repairs.rule import Aim, Repair, Repaired
from adapters.repairs.thoughts import without_thoughts
from adapters.tool_repairs.failed_results import failed_results
from schemas.content_facts import LAST_ANSWER, THOUGHTS
from schemas.fields import REASONING
from schemas.messages import CLAUDE, Message, TextPart, Thought
from schemas.requests import ChatRequest, Request

_OPUS: Final = "claude-opus-4-5"
_HELLO: Final = Message(role="user", content="Hello")
_PROVEN: Final = (Thought(text="Hm.", signature="c2ln", format=CLAUDE),)


def _thinks(one: Message) -> bool:
    return bool(one.thoughts or one.reasoning)


def _says_more(one: Message) -> bool:
    """Return whether a turn has more than thinking."""
    if one.tool_calls:
        return True
    if isinstance(one.content, tuple):
        return any(not isinstance(part, TextPart) or part.text.strip() for part in one.content)
    return bool(one.content and one.content.strip())


def _without_lone(one: Message) -> Message:
    lone = one.role == "assistant" and _thinks(one) and not _says_more(one)
    return without_thoughts(one) if lone else one


def _lone_thinking(request: Request, _: Aim) -> Repaired | None:
    found = each_message(request, _without_lone) if isinstance(request, ChatRequest) else None
    return None if found is None else Repaired(request=found, left_out=(REASONING,))


def _last_thinking(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.messages:
        return None
    *before, last = request.messages
    if last.role != "assistant" or not _thinks(last):
        return None
    if asked(request).thinks or always_thinks(aim.model):
        return None
    sent = replace(request, messages=(*before, without_thoughts(last)))
    return Repaired(request=sent, left_out=(REASONING,))


LONE_THINKING: Final = Repair(
    name="lone_thinking",
    about="leaves out the thinking of a turn that has nothing else",
    source="https://github.com/tailcallhq/forgecode/issues/3071",
    facts=THOUGHTS,
    apply=_lone_thinking,
    example=ChatRequest("m", (_HELLO, Message(role="assistant", thoughts=_PROVEN), _HELLO)),
    example_model=_OPUS,
    loss="hint",
    models=may_be_claude,
    light=True,
)

LAST_THINKING: Final = Repair(
    name="last_thinking",
    about="leaves out the thinking of a begun answer that the model continues without thinking",
    source="https://github.com/tailcallhq/forgecode/issues/1853",
    facts=LAST_ANSWER,
    apply=_last_thinking,
    example=ChatRequest("m", (_HELLO, Message(role="assistant", content="Yes,", thoughts=_PROVEN))),
    example_model=_OPUS,
    loss="hint",
    models=may_be_claude,
    light=True,
)


def _ends_with_user(model: str) -> bool:
    return claude(model) is not None and not takes_prefill(model)


TURN_REPAIRS: Final = (
    LONE_THINKING,
    call_arguments("https://docs.anthropic.com/en/api/messages#body-messages"),
    *failed_results("https://github.com/jlevy/markform/issues/153"),
    blank_text("https://github.com/anthropics/claude-code/issues/23440"),
    user_first("https://github.com/lobehub/lobehub/issues/1601"),
    no_prefill(
        "https://github.com/smallmain/vscode-unify-chat-provider/issues/249",
        _ends_with_user,
        "claude-opus-4-6",
    ),
    LAST_THINKING,
    trailing_space(
        "https://github.com/tailcallhq/forgecode/issues/1872", may_be_claude, "claude-opus-4-5"
    ),
)
"""In the order in which they run."""
