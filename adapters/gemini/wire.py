"""Wire types of the answers of Gemini's generateContent.

A frame of a stream has the form of a complete answer. Protocol buffers omit fields that are zero,
so every field may be absent.
https://ai.google.dev/api/generate-content#generatecontentresponse
"""

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL


class _Wire(Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields in camelCase, as in the API."""


class PartialArgument(_Wire, frozen=True, kw_only=True):
    """One value of a call whose arguments are streamed, or a piece of a string."""

    json_path: str = "$"
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None


class FunctionCall(_Wire, frozen=True, kw_only=True):
    """args: an object. will_continue: more pieces of the same call follow."""

    id: str | None = None
    name: str | None = None
    args: Raw = NULL
    partial_args: tuple[PartialArgument, ...] = ()
    will_continue: bool = False


class Part(_Wire, frozen=True, kw_only=True):
    """The known members of a part; others are forwarded to the client unchanged."""

    text: str | None = None
    thought: bool = False
    thought_signature: str = ""
    function_call: FunctionCall | None = None
    inline_data: Raw = NULL


class Content(_Wire, frozen=True, kw_only=True):
    parts: tuple[Raw, ...] = ()


class Logprob(_Wire, frozen=True, kw_only=True):
    token: str = ""
    token_id: int = -1
    log_probability: float = 0.0


class Ranked(_Wire, frozen=True, kw_only=True):
    candidates: tuple[Logprob, ...] = ()


class LogprobsResult(_Wire, frozen=True, kw_only=True):
    chosen_candidates: tuple[Logprob, ...] = ()
    top_candidates: tuple[Ranked, ...] = ()


class Candidate(_Wire, frozen=True, kw_only=True):
    index: int = 0
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    logprobs_result: LogprobsResult | None = None


class PromptFeedback(_Wire, frozen=True, kw_only=True):
    block_reason: str | None = None
    block_reason_message: str | None = None


class Response(_Wire, frozen=True, kw_only=True):
    candidates: tuple[Raw, ...] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: Raw = NULL
    model_version: str = ""
    response_id: str = ""
    create_time: str = ""
    error: Raw = NULL


class UsageMetadata(_Wire, frozen=True, kw_only=True):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


class Detail(_Wire, frozen=True, kw_only=True):
    """ErrorInfo has a reason, RetryInfo a delay: seconds and an `s`."""

    reason: str | None = None
    retry_delay: str | None = None


class Error(_Wire, frozen=True, kw_only=True):
    code: int = 0
    message: str = ""
    status: str = ""
    details: tuple[Detail, ...] = ()


class ErrorBody(_Wire, frozen=True, kw_only=True):
    error: Error


class EmbeddingValues(_Wire, frozen=True, kw_only=True):
    values: list[float]


class Statistics(_Wire, frozen=True, kw_only=True):
    """The method `predict` sends snake_case here."""

    token_count: float | None = msgspec.field(default=None, name="token_count")


class PredictedVector(_Wire, frozen=True, kw_only=True):
    values: list[float]
    statistics: Statistics | None = None


class Prediction(_Wire, frozen=True, kw_only=True):
    embeddings: PredictedVector


class EmbeddingsReply(_Wire, frozen=True, kw_only=True):
    """embeddings: of batchEmbedContents; embedding: of embedContent; predictions: of predict."""

    embeddings: tuple[EmbeddingValues, ...] | None = None
    embedding: EmbeddingValues | None = None
    predictions: tuple[Prediction, ...] | None = None
    usage_metadata: Raw = NULL


read_response = msgspec.json.Decoder(Response).decode
read_candidate = msgspec.json.Decoder(Candidate).decode
read_part = msgspec.json.Decoder(Part).decode
read_counts = msgspec.json.Decoder(UsageMetadata).decode
read_error = msgspec.json.Decoder(ErrorBody).decode
read_errors = msgspec.json.Decoder(tuple[ErrorBody, ...]).decode
read_vectors = msgspec.json.Decoder(EmbeddingsReply).decode
