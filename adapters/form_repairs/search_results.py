"""Search results that a client of the Messages API supplies, at vendors without such a part.

Anthropic's models cite them. Elsewhere a model can read what they say.
https://docs.claude.com/en/docs/build-with-claude/search-results
"""

from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.adapters.repairs.rewriting import each_message, with_content
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import OPAQUE
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, TextPart
from strowger_gateway.schemas.requests import ChatRequest, Request

KIND: Final = "search_result"
DIALECT: Final = "anthropic"


class _Text(Struct):
    text: str = ""


class _Result(Struct):
    title: str = ""
    source: str = ""
    content: tuple[_Text, ...] = ()


_result: Final = msgspec.json.Decoder(_Result).decode


def _as_text(part: Part) -> Part:
    """Return a search result as its title, source and text."""
    if not isinstance(part, OpaquePart) or (part.type, part.dialect) != (KIND, DIALECT):
        return part
    try:
        found = _result(part.raw)
    except (DecodeError, RecursionError):
        return part
    texts = [found.title, found.source, *[one.text for one in found.content]]
    return TextPart(text="\n".join([text for text in texts if text]))


def _message(one: Message) -> Message:
    if not isinstance(one.content, tuple):
        return one
    parts = tuple([_as_text(part) for part in one.content])
    if all(new is old for new, old in zip(parts, one.content, strict=True)):
        return one
    return with_content(one, parts)


def _told(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or aim.dialect == DIALECT:
        return None
    found = each_message(request, _message)
    changed = (f"messages[].content[].{KIND}",)
    return None if found is None else Repaired(request=found, changed=changed)


SEARCH_RESULTS: Final = Repair(
    name=KIND,
    about="sends a search result as its title, source and text",
    source="https://docs.claude.com/en/docs/build-with-claude/search-results",
    facts=OPAQUE,
    apply=_told,
    example=ChatRequest(
        "m",
        (
            Message(
                role="user",
                content=(
                    OpaquePart(
                        type=KIND,
                        raw=Raw(
                            b'{"type":"search_result","title":"Bern","source":"https://a.example",'
                            b'"content":[{"type":"text","text":"It is sunny."}]}'
                        ),
                        dialect=DIALECT,
                    ),
                ),
            ),
        ),
    ),
    loss="hint",
)
