"""A model's thinking, which Databricks' clients hand back as a part of a message's content.

`{"type": "reasoning", "summary": [{"type": "summary_text", "text", "signature"}]}`
https://docs.databricks.com/en/machine-learning/model-serving/query-reason-models.html
"""

from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Struct
from msgspec.structs import replace

from gateway.surfaces.decoding import refusal
from schemas.messages import Message, OpaquePart, Part


class _Summary(Struct, frozen=True, kw_only=True):
    """data: a thought that only the vendor can read (`summary_encrypted_text`)."""

    text: str = ""
    signature: str = ""
    data: str = ""


class _Reasoning(Struct, frozen=True, kw_only=True):
    summary: tuple[_Summary, ...] = ()


_reasoning: Final = msgspec.json.Decoder(_Reasoning)


def with_thoughts(message: Message, place: int) -> Message:
    """The message with its reasoning parts moved to where every dialect finds them.

    place: of the message, for the path in an error. Raises InvalidRequest.
    """
    content = message.content
    if message.role != "assistant" or not isinstance(content, tuple):
        return message
    thoughts: list[_Summary] = []
    others: list[Part] = []
    for index, part in enumerate(content):
        summary = ()
        if isinstance(part, OpaquePart) and part.type == "reasoning":
            summary = _read(part, f"messages[{place}].content[{index}]")
        if summary and not any(one.data for one in summary):
            thoughts += summary
        else:
            others.append(part)
    if len(others) == len(content):
        return message
    return replace(
        message,
        content=tuple(others) or None,
        reasoning="".join(one.text for one in thoughts),
        signature="".join(one.signature for one in thoughts) or UNSET,
        raw=UNSET,
    )


def _read(part: OpaquePart, where: str) -> tuple[_Summary, ...]:
    try:
        return _reasoning.decode(part.raw).summary
    except DecodeError as exc:
        raise refusal(exc, where, {}) from exc
