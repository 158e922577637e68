"""The answers of the routes that generate, as structs for the description alone.

Renderers write these bodies piece by piece, and add what a backend sent beside them; so a struct
here says which fields there are for sure and what the others are called, and forbids none.
tests/gateway/http/test_openapi.py holds real answers against them.
"""

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from gateway.surfaces.openai.stream_chunks import ChatLogprob
from schemas.events import FinishReason


class FunctionOfCall(Struct, frozen=True, kw_only=True):
    """arguments: JSON in a string, as the model wrote it."""

    name: str
    arguments: str


class CustomOfCall(Struct, frozen=True, kw_only=True):
    """A tool of OpenAI's kind `custom`, whose input is text."""

    name: str
    input: str


class CallOfTool(Struct, frozen=True, kw_only=True):
    """type: `function`, or another kind of a vendor's with a member of its name."""

    id: str
    type: str
    function: FunctionOfCall | UnsetType = UNSET
    custom: CustomOfCall | UnsetType = UNSET


class ChatMessageOfAnswer(Struct, frozen=True, kw_only=True):
    """reasoning, reasoning_content: the same thinking under the names that clients look for."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    reasoning: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning_signature: str | UnsetType = UNSET
    reasoning_details: list[dict[str, Raw]] | UnsetType = UNSET
    tool_calls: list[CallOfTool] | UnsetType = UNSET


class ChatLogprobs(Struct, frozen=True, kw_only=True):
    content: list[ChatLogprob] | None
    refusal: list[ChatLogprob] | None


class ChatChoice(Struct, frozen=True, kw_only=True):
    """native_finish_reason: the vendor's own word. stop_reason: the stop that was found."""

    index: int
    message: ChatMessageOfAnswer
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    native_finish_reason: str | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET


class TokenUsage(Struct, frozen=True, kw_only=True):
    """null: the backend does not count it. A vendor's own members stand beside these."""

    prompt_tokens: int | None
    completion_tokens: int | None
    total_tokens: int | None
    prompt_tokens_details: dict[str, Raw] | None | UnsetType = UNSET
    completion_tokens_details: dict[str, Raw] | None | UnsetType = UNSET


class ChatCompletion(Struct, frozen=True, kw_only=True):
    """A whole answer to a conversation; a vendor's own fields stand beside these."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenUsage | UnsetType = UNSET


class CompletionLogprobs(Struct, frozen=True, kw_only=True):
    """Columns, an entry for each token."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class CompletionChoice(Struct, frozen=True, kw_only=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason
    native_finish_reason: str | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class TextCompletion(Struct, frozen=True, kw_only=True):
    """A whole continuation of a text; a vendor's own fields stand beside these."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenUsage | UnsetType = UNSET


class TensorParameters(Struct, frozen=True, kw_only=True):
    """binary_data_size: bytes of the tensor behind the JSON."""

    binary_data_size: int


class OutputTensor(Struct, frozen=True, kw_only=True):
    """data: absent where the tensor stands behind the JSON as bytes."""

    name: str
    datatype: str
    shape: list[int]
    parameters: TensorParameters | UnsetType = UNSET
    data: list[Raw] | UnsetType = UNSET


class InferAnswer(Struct, frozen=True, kw_only=True):
    """The output tensors that were asked for."""

    model_name: str
    model_version: str
    id: str | UnsetType = UNSET
    outputs: list[OutputTensor]


class Liveness(Struct, frozen=True, kw_only=True):
    """worker: its number among those that serve. pid: of its process."""

    status: Literal["alive"]
    worker: int
    pid: int


class Readiness(Struct, frozen=True, kw_only=True):
    """engines: what each local engine does. configuration: where the file as it is was refused."""

    status: str
    engines: dict[str, str] | UnsetType = UNSET
    configuration: str | UnsetType = UNSET


class FeedbackTaken(Struct, frozen=True, kw_only=True):
    """accepted: the request is not in the store yet; recorded: it is."""

    status: Literal["recorded", "accepted"]
