"""Citations of a web search that ran at another vendor, when the conversation reaches Claude.

Anthropic refuses a citation whose proof is not its own. The text that cites stays.
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import each_message, rebuilt, with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import PARTS
from strowger_gateway.schemas.messages import Message, Part, TextPart
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.searches import MADE_HERE

_OURS: Final = b'"encrypted_index":"%b"' % MADE_HERE.encode()
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


def _uncited(part: Part) -> Part:
    if not isinstance(part, TextPart) or not isinstance(part.marks, Raw):
        return part
    if _OURS not in bytes(part.marks).replace(b" ", b""):
        return part
    marks = with_members(part.marks, {"citations": UNSET})
    return replace(part, marks=marks if _fields.decode(marks) else UNSET)


def _message(one: Message) -> Message:
    if one.role != "assistant" or not isinstance(one.content, tuple):
        return one
    parts = tuple([_uncited(part) for part in one.content])
    if all(new is old for new, old in zip(parts, one.content, strict=True)):
        return one
    return rebuilt(one, content=parts)


def _without_citations(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    sent = each_message(request, _message)
    if sent is None:
        return None
    return Repaired(request=sent, left_out=("messages[].content[].citations",))


FOREIGN_CITATIONS: Final = Repair(
    name="foreign_citations",
    about="leaves out citations of a web search that ran at another vendor",
    source="https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool",
    facts=PARTS,
    apply=_without_citations,
    example=ChatRequest(
        "m",
        (
            Message(role="user", content="Who won?"),
            Message(
                role="assistant",
                content=(
                    TextPart(
                        text="The home team.",
                        marks=Raw(b'{"citations":[{"url":"https://a.test",%b}]}' % _OURS),
                    ),
                ),
            ),
            Message(role="user", content="By how much?"),
        ),
    ),
    loss="none",
)
