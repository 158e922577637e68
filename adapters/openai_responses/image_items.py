"""Images that an earlier answer generated, if they come back without their bytes.

OpenAI would look such an image up among those of the operator's account, which all clients share,
and nothing is stored there.
"""

from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.adapters.repairs.rewriting import each_message, rebuilt
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import OPAQUE
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, TextPart
from strowger_gateway.schemas.requests import ChatRequest, Request

_KIND: Final = "image_generation_call"


class _Image(Struct):
    result: str | None = None


_image: Final = msgspec.json.Decoder(_Image).decode


def _without(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _with_bytes)
    return None if found is None else Repaired(request=found, left_out=("messages[].content[]",))


def _with_bytes(one: Message) -> Message:
    if not isinstance(one.content, tuple):
        return one
    kept = tuple([part for part in one.content if not _is_empty(part)])
    return one if len(kept) == len(one.content) else rebuilt(one, content=kept or None)


def _is_empty(part: Part) -> bool:
    if not isinstance(part, OpaquePart) or part.type != _KIND:
        return False
    try:
        return not _image(part.raw).result
    except (DecodeError, RecursionError):
        return True


EMPTY_IMAGES: Final = Repair(
    name="empty_image",
    about="leaves out generated images that come back without their bytes",
    source="https://platform.openai.com/docs/guides/tools-image-generation",
    facts=OPAQUE,
    apply=_without,
    example=ChatRequest(
        "m",
        (
            Message(role="user", content="Draw a cat."),
            Message(
                role="assistant",
                content=(
                    OpaquePart(
                        type=_KIND,
                        raw=Raw(b'{"type":"image_generation_call","id":"ig_1"}'),
                        dialect="openai-responses",
                    ),
                    TextPart(text="Here it is."),
                ),
            ),
        ),
    ),
    loss="hint",
)
