"""Wire types of Converse's answers.

Fields that are not read are ignored, among them the padding `p` of a stream's events.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""
# ruff: noqa: N815  the names are the wire's

from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL

RUN_BY_THE_SERVER: Final = "server_tool_use"


class ToolUse(Struct, frozen=True, kw_only=True):
    """input: an object, only in a complete answer."""

    toolUseId: str
    name: str
    input: Raw = NULL
    type: str = ""


class Start(Struct, frozen=True, kw_only=True):
    """start: the start of the block, by kind."""

    start: dict[str, Raw]
    contentBlockIndex: int = 0


class _ToolPiece(Struct, frozen=True, kw_only=True):
    input: str = ""


class ThoughtDelta(Struct, frozen=True, kw_only=True):
    """redactedContent: base64."""

    text: str | None = None
    signature: str | None = None
    redactedContent: str | None = None


class _Piece(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str | None = None
    toolUse: _ToolPiece | None = None
    reasoningContent: ThoughtDelta | None = None
    citation: Raw = NULL


class OutputDelta(Struct, frozen=True, kw_only=True):
    delta: _Piece
    contentBlockIndex: int = 0


class OtherDelta(Struct, frozen=True, kw_only=True):
    """A delta of a block of a kind that is not in `_Piece`."""

    delta: dict[str, Raw]
    contentBlockIndex: int = 0


class Stop(Struct, frozen=True, kw_only=True):
    contentBlockIndex: int = 0


class End(Struct, frozen=True, kw_only=True):
    stopReason: str
    additionalModelResponseFields: Raw = NULL


class Metadata(Struct, frozen=True, kw_only=True):
    usage: Raw = NULL


class _ReasoningText(Struct, frozen=True, kw_only=True):
    text: str = ""
    signature: str | None = None


class _Thought(Struct, frozen=True, kw_only=True):
    reasoningText: _ReasoningText | None = None
    redactedContent: str | None = None


class _Cited(Struct, frozen=True, kw_only=True):
    text: str | None = None


class _Citations(Struct, frozen=True, kw_only=True):
    content: tuple[_Cited, ...] = ()
    citations: tuple[Raw, ...] = ()


class OutputBlock(Struct, frozen=True, kw_only=True):
    text: str | None = None
    toolUse: ToolUse | None = None
    reasoningContent: _Thought | None = None
    citationsContent: _Citations | None = None


class _Message(Struct, frozen=True, kw_only=True):
    content: tuple[Raw, ...] = ()


class _Output(Struct, frozen=True, kw_only=True):
    message: _Message


class Whole(End, frozen=True, kw_only=True):
    """An answer that is not streamed."""

    output: _Output
    usage: Raw = NULL


class CacheDetail(Struct, frozen=True, kw_only=True):
    """ttl: `5m` or `1h`. inputTokens: written to the cache for that long."""

    ttl: str = ""
    inputTokens: int = 0


class TokenCounts(Struct, frozen=True, kw_only=True):
    inputTokens: int | None = None
    outputTokens: int | None = None
    totalTokens: int | None = None
    cacheReadInputTokens: int | None = None
    cacheWriteInputTokens: int | None = None
    cacheDetails: tuple[CacheDetail, ...] | None = None


class Matched(Struct, frozen=True, kw_only=True):
    stop_sequence: str | None = None


read_start = msgspec.json.Decoder(Start).decode
read_delta = msgspec.json.Decoder(OutputDelta).decode
read_other_delta = msgspec.json.Decoder(OtherDelta).decode
read_tool_use = msgspec.json.Decoder(ToolUse).decode
read_block = msgspec.json.Decoder(OutputBlock).decode
read_stop = msgspec.json.Decoder(Stop).decode
read_end = msgspec.json.Decoder(End).decode
read_metadata = msgspec.json.Decoder(Metadata).decode
read_whole = msgspec.json.Decoder(Whole).decode
read_usage = msgspec.json.Decoder(TokenCounts).decode
read_matched = msgspec.json.Decoder(Matched).decode
read_fields = msgspec.json.Decoder(dict[str, Raw]).decode
