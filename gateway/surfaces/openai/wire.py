"""The OpenAI dialect's wire format, with the range of every field.

A null counts as absent, so `None` means either.
https://platform.openai.com/docs/api-reference, plus the extensions that other servers of the
dialect and the local engine accept.
"""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import MODEL_NAME

LONGEST_NAME: Final = 512
"""Characters of a function's name. Vendors take fewer: see adapters/repairs/tool_names.py."""

Model = Annotated[str, Meta(max_length=256)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Unit = Annotated[float, Meta(ge=0, le=1)]
PositiveUnit = Annotated[float, Meta(gt=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
PositiveFloat = Annotated[float, Meta(gt=0)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
Count = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
NonEmpty = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Priority = Annotated[int, Meta(ge=1, le=5)]
FunctionName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
PromptItem = str | TokenId | tuple[TokenId, ...]
_STOP_NUMBERS: Final = (tuple[TokenId, ...] | None, tuple[TokenId, ...])
CHAT_NUMBERS: Final = {"stop_token_ids": _STOP_NUMBERS}
PROMPT_NUMBERS: Final = {
    "prompt": (str | tuple[PromptItem, ...], tuple[TokenId, ...]),
    "stop_token_ids": _STOP_NUMBERS,
}
INPUT_NUMBERS: Final = {"input": (str | tuple[PromptItem, ...], tuple[TokenId, ...])}
"""Fields that may be long lists of numbers; see
`strowger_gateway.gateway.surfaces.decoding.BodyReader`.
"""


class SamplingWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Common to chat and completions. `seed` is checked in code: it may be a uint64."""

    model: Model | None = None
    temperature: Temperature | None = None
    top_p: Unit | None = None
    top_k: Count | None = None
    min_p: Unit | None = None
    typical_p: PositiveUnit | None = None
    min_tokens: Natural | None = None
    stop: str | tuple[str, ...] | None = None
    stop_token_ids: tuple[TokenId, ...] | None = None
    bad_words: tuple[NonEmpty, ...] | None = None
    ignore_eos: bool | None = None
    seed: int | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: PositiveFloat | None = None
    no_repeat_ngram_size: Natural | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    n: Count | None = None
    best_of: Count | None = None
    beam_width: Count | None = None
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = None
    stream: bool | None = None
    stream_options: Raw | UnsetType = UNSET
    user: str | None = None
    priority: Priority | None = None
    timeout: Seconds | None = None


class ChatWire(SamplingWire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Raw], Meta(min_length=1)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw | UnsetType = UNSET
    parallel_tool_calls: bool | None = None
    response_format: Raw | UnsetType = UNSET
    reasoning_effort: NonEmpty | None = None
    metadata: Raw | UnsetType = UNSET


class PromptedChatWire(ChatWire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same where a prompt may bring all messages."""

    messages: list[Raw] = []


class CompletionWire(SamplingWire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/completions`, with Databricks' `error_behavior` and `use_raw_prompt`."""

    prompt: str | tuple[PromptItem, ...]
    max_tokens: Natural | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    error_behavior: Literal["error", "truncate"] | None = None
    use_raw_prompt: bool | None = None


class EmbeddingsWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """`POST /v1/embeddings`, with Databricks' `instruction`. stream: not true."""

    input: str | tuple[PromptItem, ...]
    model: Model | None = None
    stream: bool | None = None
    instruction: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = None
    user: str | None = None
    timeout: Seconds | None = None


_TOKEN_ID: Final = "a token id, an integer from 0 to 2147483647"
_PROMPT: Final = "a string, a list of strings, a list of token ids, or a list of lists of token ids"

ALLOWED: Final[dict[str, str]] = {
    "model": MODEL_NAME,
    "messages": "a list of at least one message",
    "temperature": "a number from 0 to 2",
    "top_p": "a number from 0 to 1",
    "top_k": "an integer of 1 or more, or null",
    "min_p": "a number from 0 to 1",
    "typical_p": "a number above 0 and up to 1",
    "max_tokens": "an integer of 1 or more, or null",
    "max_completion_tokens": "an integer of 1 or more, or null",
    "min_tokens": "an integer of 0 or more",
    "stop": "a string or a list of strings",
    "stop[]": "a string",
    "stop_token_ids": "a list of token ids",
    "stop_token_ids[]": _TOKEN_ID,
    "bad_words": "a list of strings, none of them empty",
    "bad_words[]": "a string that is not empty",
    "ignore_eos": "true or false",
    "seed": "an integer from -2^63 to 2^64-1, or null",
    "presence_penalty": "a number from -2 to 2",
    "frequency_penalty": "a number from -2 to 2",
    "repetition_penalty": "a number above 0",
    "no_repeat_ngram_size": "an integer of 0 or more",
    "logit_bias": "an object whose keys are token ids and whose values are numbers -100 to 100",
    "top_logprobs": "an integer from 0 to 20",
    "n": "an integer of 1 or more",
    "best_of": "an integer of 1 or more",
    "beam_width": "an integer of 1 or more",
    "length_penalty": "a number",
    "early_stopping": 'true, false or "never"',
    "stream": "true or false",
    "stream_options.include_usage": "true or false",
    "stream_options.include_obfuscation": "true or false",
    "stream_options.continuous_usage_stats": "true or false",
    "parallel_tool_calls": "true or false",
    "reasoning_effort": "a string that is not empty",
    "user": "a string",
    "priority": "an integer from 1 (first) to 5",
    "timeout": "a number of seconds above 0 and up to 3600",
    "echo": "true or false",
    "suffix": "a string",
    "error_behavior": '"error" or "truncate"',
    "use_raw_prompt": "true or false",
    "prompt": _PROMPT,
    "prompt[]": f"of the same kind as the others: {_PROMPT}",
    "prompt[][]": _TOKEN_ID,
    "input": _PROMPT,
    "input[]": f"of the same kind as the others: {_PROMPT}",
    "input[][]": _TOKEN_ID,
    "instruction": "a string",
    "encoding_format": '"float" or "base64"',
    "dimensions": "an integer of 1 or more",
    "tools": "a list of tools",
    "tools[].function.name": "a string of 1 to 512 characters",
    "messages[].role": "one of system, developer, user, assistant, tool, function",
    "messages[].content": "a string or a list of parts",
    "messages[].tool_calls": "a list of tool calls",
    "messages[].tool_calls[].function.arguments": "a string that holds JSON",
    "messages[].content[].image_url": "an object with a url",
}
"""What each field must be; used in messages of 400s. Paths have no indices."""

CHAT_ALLOWED: Final = {**ALLOWED, "logprobs": "true or false"}
COMPLETION_ALLOWED: Final = {
    **ALLOWED,
    "logprobs": "an integer from 0 to 5",
    "max_tokens": "an integer of 1 or more (0 with echo), or null",
}
