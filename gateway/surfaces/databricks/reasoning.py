"""A model's reasoning, which Databricks' clients send back as a part of a message's content.

`{"type": "reasoning", "summary": [{"type": "summary_text", "text", "signature"}]}`. Reasoning that
only its vendor can read (`summary_encrypted_text`) stays an opaque part.
https://docs.databricks.com/en/machine-learning/model-serving/query-reason-models.html
"""

from collections.abc import Callable, Container
from typing import Final, Literal

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.decoding import invalid_request
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, Thought

READABLE: Final = "summary_text"


class _Kind(Struct, frozen=True, kw_only=True):
    type: str = READABLE


class _Kinds(Struct, frozen=True, kw_only=True):
    summary: tuple[_Kind, ...] = ()


class _Summary(Struct, frozen=True, kw_only=True):
    type: Literal["summary_text"] = READABLE
    text: str = ""
    signature: str = ""


class _Reasoning(Struct, frozen=True, kw_only=True):
    summary: tuple[_Summary, ...] = ()


_kinds: Final = msgspec.json.Decoder(_Kinds)
_reasoning: Final = msgspec.json.Decoder(_Reasoning)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_list: Final = msgspec.json.Decoder(list[Raw])
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


def move_reasoning(message: Message, place: int) -> Message:
    """Return the message with its reasoning parts moved to where every dialect finds them.

    place: index of the message, used in error paths. Raises InvalidRequest.
    """
    content = message.content
    if message.role != "assistant" or not isinstance(content, tuple):
        return message
    where = f"messages[{place}].content"
    found = {index: _read(part, f"{where}[{index}]") for index, part in enumerate(content)}
    thoughts = {index: thought for index, thought in found.items() if thought is not None}
    if not thoughts:
        return message
    summaries = [one for thought in thoughts.values() for one in thought]
    changed = replace(
        message,
        content=tuple(part for index, part in enumerate(content) if index not in thoughts) or None,
        reasoning="".join(one.text for one in summaries),
        signature=next((one.signature for one in reversed(summaries) if one.signature), UNSET),
        thoughts=tuple(Thought(text=one.text, signature=one.signature) for one in summaries),
    )
    return replace(changed, raw=_rewritten(changed, thoughts))


def _read(part: Part, where: str) -> tuple[_Summary, ...] | None:
    """Return `None` for a part that is not reasoning, or is encrypted."""
    if not isinstance(part, OpaquePart) or part.type != "reasoning":
        return None
    try:
        if any(one.type != READABLE for one in _kinds.decode(part.raw).summary):
            return None
        return _reasoning.decode(part.raw).summary
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, {}) from exc


def _rewritten(message: Message, thoughts: Container[int]) -> Raw:
    """Return the client's JSON, its unknown fields included, with the reasoning moved.

    thoughts: their indices in the content.
    """
    sent = _fields.decode(message.raw or b"{}")
    parts = [
        part for index, part in enumerate(_list.decode(sent["content"])) if index not in thoughts
    ]
    fields: dict[str, object] = {**sent, "content": parts}
    if not parts:
        del fields["content"]
    fields["reasoning_content"] = message.reasoning
    if message.signature is not UNSET:
        fields["reasoning_signature"] = message.signature
    return Raw(_encode(fields))
