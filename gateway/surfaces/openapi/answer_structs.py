"""Response bodies of the generating routes, as structs for the API description only.

Renderers write these bodies in pieces and add extra fields of the backend, so a struct here lists
the guaranteed and the optional fields and forbids no others.
tests/gateway/surfaces/openapi/test_openapi.py checks real responses against them.
"""

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.envelope import ChatLogprob
from strowger_gateway.schemas.events import FinishReason


class FunctionOfCall(Struct, frozen=True, kw_only=True):
    """arguments: JSON in a string, as the model wrote it."""

    name: str
    arguments: str


class CustomOfCall(Struct, frozen=True, kw_only=True):
    """A tool call of OpenAI's type `custom`, whose input is text."""

    name: str
    input: str


class CallOfTool(Struct, frozen=True, kw_only=True):
    """type: `function`, or a vendor's type with a field of that name."""

    id: str
    type: str
    function: FunctionOfCall | UnsetType = UNSET
    custom: CustomOfCall | UnsetType = UNSET


class ChatMessageOfAnswer(Struct, frozen=True, kw_only=True):
    """reasoning, reasoning_content: the same text under the two names that clients use."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    reasoning: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning_signature: str | UnsetType = UNSET
    reasoning_details: list[dict[str, Raw]] | UnsetType = UNSET
    tool_calls: list[CallOfTool] | UnsetType = UNSET


class MessagesCounts(Struct, frozen=True, kw_only=True):
    """input_tokens: without those that were read from a cache or written to it."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None | UnsetType = UNSET
    cache_read_input_tokens: int | None | UnsetType = UNSET


class MessagesTokens(Struct, frozen=True, kw_only=True):
    """The tokens of the prompt, counted by the vendor or by the model's own tokenizer.

    With the header `x-gateway-estimated`, they are estimated.
    """

    input_tokens: int


class ResponseTokens(Struct, frozen=True, kw_only=True):
    """As MessagesTokens, in the Responses API."""

    object: Literal["response.input_tokens"]
    input_tokens: int


class MessagesAnswer(Struct, frozen=True, kw_only=True):
    """content: blocks of type text, thinking, redacted_thinking, tool_use, and the vendor's own."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[dict[str, Raw]]
    stop_reason: str
    stop_sequence: str | None
    usage: MessagesCounts


class ResponseCounts(Struct, frozen=True, kw_only=True):
    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class ResponseFailure(Struct, frozen=True, kw_only=True):
    code: str
    message: str


class ResponseGap(Struct, frozen=True, kw_only=True):
    reason: Literal["max_output_tokens", "content_filter"]


class DeletedResponse(Struct, frozen=True, kw_only=True):
    """The response is not stored any more."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ResponseItems(Struct, frozen=True, kw_only=True):
    """A page of the items that led to a response: also those that it continues."""

    object: Literal["list"]
    data: list[dict[str, Raw]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ResponseAnswer(Struct, frozen=True, kw_only=True):
    """output: items of type message, reasoning, function_call and custom_tool_call.

    completed_at: Unix seconds. The client's settings are repeated; those that it left out have the
    specification's defaults.
    """

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    background: bool
    completed_at: int | None
    error: ResponseFailure | None
    incomplete_details: ResponseGap | None
    model: str
    output: list[dict[str, Raw]]
    service_tier: str
    previous_response_id: str | None
    instructions: str | None
    tools: list[dict[str, Raw]]
    tool_choice: str | dict[str, Raw]
    truncation: Literal["auto", "disabled"]
    parallel_tool_calls: bool
    text: dict[str, Raw]
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: int
    temperature: float
    reasoning: dict[str, Raw]
    max_output_tokens: int | None
    max_tool_calls: int | None
    store: bool
    metadata: dict[str, Raw]
    safety_identifier: str | None
    prompt_cache_key: str | None
    usage: ResponseCounts | None


class ResponseWindow(Struct, frozen=True, kw_only=True):
    """The items with which a conversation goes on: messages that stay, and a compaction item.

    created_at: Unix seconds.
    """

    id: str
    object: Literal["response.compaction"]
    created_at: int
    output: list[dict[str, Raw]]
    usage: ResponseCounts | None


class ChatLogprobs(Struct, frozen=True, kw_only=True):
    content: list[ChatLogprob] | None
    refusal: list[ChatLogprob] | None


class ChatChoice(Struct, frozen=True, kw_only=True):
    """native_finish_reason: the vendor's value. stop_reason: the stop sequence that matched."""

    index: int
    message: ChatMessageOfAnswer
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    native_finish_reason: str | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET


class TokenUsage(Struct, frozen=True, kw_only=True):
    """Null counts are those that the backend does not report. Vendors may add further fields."""

    prompt_tokens: int | None
    completion_tokens: int | None
    total_tokens: int | None
    prompt_tokens_details: dict[str, Raw] | None | UnsetType = UNSET
    completion_tokens_details: dict[str, Raw] | None | UnsetType = UNSET


class ChatCompletion(Struct, frozen=True, kw_only=True):
    """A complete chat response; may contain further fields of a vendor."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenUsage | UnsetType = UNSET


class CompletionLogprobs(Struct, frozen=True, kw_only=True):
    """Columns with one entry per token."""

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
    """A complete text completion; may contain further fields of a vendor."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenUsage | UnsetType = UNSET


class TensorParameters(Struct, frozen=True, kw_only=True):
    """binary_data_size: bytes of the tensor after the JSON."""

    binary_data_size: int


class OutputTensor(Struct, frozen=True, kw_only=True):
    """data: absent if the tensor follows the JSON as bytes."""

    name: str
    datatype: str
    shape: list[int]
    parameters: TensorParameters | UnsetType = UNSET
    data: list[Raw] | UnsetType = UNSET


class InferAnswer(Struct, frozen=True, kw_only=True):
    """The requested output tensors."""

    model_name: str
    model_version: str
    id: str | UnsetType = UNSET
    outputs: list[OutputTensor]


class Liveness(Struct, frozen=True, kw_only=True):
    """worker: number of the worker process. pid: its process id. Both for the operator only."""

    status: Literal["alive"]
    worker: int | UnsetType = UNSET
    pid: int | UnsetType = UNSET


class Readiness(Struct, frozen=True, kw_only=True):
    """engines: the state of each local engine. configuration: present if the file is invalid.

    discovery: what is wrong, by source of replicas.
    records: why they are not imported now.
    config_hash: of the configuration in force, without secrets; equal on gateways with equal files.
    """

    status: str
    engines: dict[str, str] | UnsetType = UNSET
    config_hash: str | UnsetType = UNSET
    configuration: str | UnsetType = UNSET
    discovery: dict[str, str] | UnsetType = UNSET
    records: str | UnsetType = UNSET


class FeedbackTaken(Struct, frozen=True, kw_only=True):
    """recorded: the request is in the store; accepted: it is not there yet."""

    status: Literal["recorded", "accepted"]
