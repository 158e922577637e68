"""Wire types of OpenAI-dialect answers, well-formed and otherwise.

`read_chunk` reads what servers nearly always send, and rejects anything unexpected; `read_loose`
then reads the same frame piece by piece. So a plain chunk costs one typed decode, and an unknown
field of a message, an error inside a stream or an object in place of a string is still detected.
https://github.com/openai/openai-openapi
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object

_NO_ERROR = Raw(b"0")


class TopLogprob(Struct, frozen=True, kw_only=True, gc=False):
    token: str
    logprob: float | None = None
    bytes: tuple[int, ...] | None = None


class WireTokenLogprob(Struct, frozen=True, kw_only=True, gc=False):
    token: str
    logprob: float | None = None
    bytes: tuple[int, ...] | None = None
    top_logprobs: tuple[TopLogprob, ...] | None = None


class Logprobs(Struct, frozen=True, kw_only=True):
    """`content` and `refusal` in chat; the rest in completions, where `top_logprobs` are maps.

    content, refusal: decoded token by token, so that a long answer does not hold the interpreter.
    text_offset: from the beginning of the prompt, in characters; SGLang sends -1 for unknown.
    """

    content: tuple[Raw, ...] | None = None
    refusal: tuple[Raw, ...] | None = None
    tokens: tuple[str, ...] | None = None
    token_logprobs: tuple[float | None, ...] | None = None
    top_logprobs: tuple[dict[str, float] | None, ...] | None = None
    text_offset: tuple[int | None, ...] | None = None


class Function(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    name: str | None = None
    arguments: str | None = None


class ToolPiece(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """more: all other members; never on the wire under this name."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None
    more: dict[str, Raw] = {}


class ThoughtPiece(Struct, frozen=True, kw_only=True, gc=False):
    """A block of reasoning, or a piece of one, where a server sends them apart.

    data: reasoning that only the vendor reads. format: of the signature or data.
    place: the server's number of the block; `None` if it has none.
    id:    of OpenAI's reasoning item, or of the call of a tool that `data` belongs to.
    """

    text: str = ""
    signature: str = ""
    data: str = ""
    format: str = ""
    place: int | None = None
    id: str = ""


class WireMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A complete message, or a piece of one. Fields typed `None` may be present, but empty.

    annotations: empty in every plain answer of OpenAI's.
    opaque: unknown fields, which `repaired` collects; its name on the wire is one that no server
    sends, as that of `thoughts`: reasoning in parts of the content of which some have proofs.
    """

    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_signature: str | None = None
    tool_calls: tuple[ToolPiece, ...] | None = None
    function_call: None = None
    audio: None = None
    annotations: tuple[()] | None = None
    opaque: dict[str, Raw] | None = field(default=None, name="(opaque)")
    thoughts: tuple[ThoughtPiece, ...] | None = field(default=None, name="(thoughts)")


class Choice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """delta: a chat's stream; message: a chat's complete answer; text: completions. Some servers
    send both of the first two, one of them empty, or the message so far next to each delta.

    stop_reason: the stop string or token that ended the answer; matched_stop: SGLang's name.
    content_filter_*: Azure's, in nearly every frame. The fields typed `None` are vLLM's, which are
    present, but empty unless requested.
    more: unknown fields of the choice, as `opaque` of the message.
    """

    index: int = 0
    delta: WireMessage | None = None
    message: WireMessage | None = None
    text: str | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    stop_reason: str | int | None = None
    matched_stop: str | int | None = None
    seed: int | None = None
    content_filter_results: Raw = NULL
    content_filter_offsets: Raw = NULL
    token_ids: None = None
    prompt_token_ids: None = None
    prompt_logprobs: None = None
    routed_experts: None = None
    more: dict[str, Raw] | None = field(default=None, name="(more)")


class OpenChunk(Struct, frozen=True, kw_only=True, gc=False):
    """A regular frame; one without choices, or with an error, is read by `read_loose` instead."""

    choices: list[Choice]
    usage: Raw = NULL
    error: None = None
    system_fingerprint: Raw = NULL
    service_tier: Raw = NULL


class Chunk(OpenChunk, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A frame without unknown fields. What `Head` reads of the first frame is typed, not read.

    Decoding to a plain type takes less time than creating a Raw; a frame with other types is
    read as an `OpenChunk`.
    """

    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    obfuscation: Raw = NULL


class TextPiece(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A piece of a message that is nothing but text."""

    content: Annotated[str, Meta(min_length=1)]
    role: str | None = None
    refusal: None = None
    reasoning: None = None
    reasoning_content: None = None
    reasoning_signature: None = None
    tool_calls: None = None
    function_call: None = None
    audio: None = None
    annotations: None = None


class TextChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A choice that goes on with nothing but text."""

    delta: TextPiece
    index: int = 0
    logprobs: None = None
    finish_reason: None = None
    native_finish_reason: None = None
    stop_reason: None = None
    matched_stop: None = None
    token_ids: None = None


class TextChunk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A `Chunk` whose only choice goes on with text, as nearly every frame of a stream.

    That a frame decodes as this type replaces a dozen tests of a `Chunk`'s members.
    """

    choices: tuple[TextChoice]
    usage: Raw = NULL
    system_fingerprint: Raw = NULL
    service_tier: Raw = NULL
    error: None = None
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    obfuscation: Raw = NULL


class Head(Struct, frozen=True, kw_only=True, gc=False):
    """The top-level fields of the first frame, or of a complete answer."""

    id: str | None = None
    created: int | None = None
    model: str | None = None


class LooseChoice(Struct, frozen=True, kw_only=True):
    """The known members of a choice; others are read one by one."""

    index: int | None = None
    delta: dict[str, Raw] | None = None
    message: dict[str, Raw] | None = None
    text: str | None = None
    logprobs: Raw = NULL
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    stop_reason: Raw = NULL
    matched_stop: Raw = NULL
    seed: Raw = NULL
    content_filter_results: Raw = NULL
    content_filter_offsets: Raw = NULL


class LooseChunk(Struct, frozen=True, kw_only=True):
    choices: tuple[Raw, ...] | None = None
    usage: Raw = NULL
    error: Raw = NULL


class PromptDetails(Struct, frozen=True, kw_only=True):
    """cache_creation_tokens: LiteLLM's name for what the request wrote to the cache."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_creation_tokens: int | None = None


class CompletionDetails(Struct, frozen=True, kw_only=True):
    reasoning_tokens: int | None = None


class UsageCounts(Struct, frozen=True, kw_only=True):
    """OpenAI's names, then Databricks' (Anthropic behind), DeepSeek's, Together's."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class EmbeddingItem(Struct, frozen=True, kw_only=True):
    """embedding: decoded one by one, so that a large answer does not hold the interpreter."""

    embedding: Raw
    index: int | None = None


class EmbeddingList(Struct, frozen=True, kw_only=True):
    data: tuple[EmbeddingItem, ...]
    id: str | None = None
    model: str | None = None
    usage: Raw = NULL


read_chunk = msgspec.json.Decoder(Chunk).decode
read_text_chunk = msgspec.json.Decoder(TextChunk).decode
read_open_chunk = msgspec.json.Decoder(OpenChunk).decode
read_head = msgspec.json.Decoder(Head).decode
read_loose = msgspec.json.Decoder(LooseChunk).decode
read_vectors = msgspec.json.Decoder(EmbeddingList).decode
_vector: msgspec.json.Decoder[list[float] | str] = msgspec.json.Decoder(list[float] | str)
read_vector = _vector.decode
read_loose_choice = msgspec.json.Decoder(LooseChoice).decode
read_usage = msgspec.json.Decoder(UsageCounts).decode
read_token = msgspec.json.Decoder(WireTokenLogprob).decode
read_logprobs = msgspec.json.Decoder(Logprobs | None).decode


def reports_failure(data: bytes) -> bool:
    """Return whether a frame with an empty list of choices reports why it is empty."""
    fields = read_object(data)
    coded = "message" in fields and not fields.keys().isdisjoint(("code", "error_code"))
    return coded or is_refused(fields.get("base_resp", NULL))


def is_refused(base_resp: Raw) -> bool:
    """Return whether MiniMax reports an error next to its choices, which are null then.

    https://platform.minimax.io/docs/api-reference/errorcode
    """
    if base_resp == NULL:
        return False
    try:
        return read_object(base_resp).get("status_code", NULL) not in (NULL, _NO_ERROR)
    except UNREADABLE:
        return False
