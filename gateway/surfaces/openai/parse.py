"""Parse bodies of the OpenAI dialect, or raise an InvalidRequest that names the field.

https://platform.openai.com/docs/api-reference. Nulls count as absent, and an absent field stays
absent: `UNSET`, never a default of the gateway. That includes the dialect's default of 16 tokens
for completions, which the generating side applies (`COMPLETION_MAX_TOKENS`).
"""

from functools import cache
from typing import Final, Literal, cast

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.decoding import (
    BodyReader,
    check_whole,
    is_null,
    is_object,
    model_name,
)
from strowger_gateway.gateway.surfaces.openai.messages import read_messages
from strowger_gateway.gateway.surfaces.openai.stream_options import NO_OPTIONS, read_stream_options
from strowger_gateway.gateway.surfaces.openai.tools import (
    read_response_format,
    read_tool_choice,
    read_tools,
)
from strowger_gateway.gateway.surfaces.openai.wire import (
    ALLOWED,
    CHAT_ALLOWED,
    CHAT_NUMBERS,
    COMPLETION_ALLOWED,
    INPUT_NUMBERS,
    PROMPT_NUMBERS,
    ChatWire,
    CompletionWire,
    EmbeddingsWire,
    PromptedChatWire,
    SamplingWire,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message, ResponseFormat, Tool, ToolChoice
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Prompt,
)
from strowger_gateway.schemas.sampling import Sampling

COMPLETION_MAX_TOKENS: Final = 16
"""Default number of generated tokens of a completion."""
MAX_CHOICES: Final = 256
MAX_INPUTS: Final = 2048

_MANY: Final = 100_000

CHAT_READER: Final = BodyReader(ChatWire, CHAT_ALLOWED, numbers=CHAT_NUMBERS)
COMPLETION_READER: Final = BodyReader(CompletionWire, COMPLETION_ALLOWED, numbers=PROMPT_NUMBERS)
EMBEDDINGS_READER: Final = BodyReader(EmbeddingsWire, ALLOWED, numbers=INPUT_NUMBERS)


@cache
def prompted_reader() -> BodyReader[ChatWire]:
    """Return the reader of chats that may have no message, because a prompt may bring some."""
    return BodyReader(cast(type[ChatWire], PromptedChatWire), CHAT_ALLOWED, numbers=CHAT_NUMBERS)


def parse_chat(
    body: bytes,
    *,
    model: str = "",
    max_choices: int = MAX_CHOICES,
    reader: BodyReader[ChatWire] = CHAT_READER,
) -> ChatRequest:
    """`POST /v1/chat/completions`.

    model:       the name in the path, "" if the body must name it.
    max_choices: maximum number of answers that one request may ask for.
    reader:      for a dialect whose fields have different ranges.
    Raises InvalidRequest.
    """
    wire, extra = reader.read(body)
    max_tokens, max_tokens_field = _chat_max_tokens(wire)
    if wire.n is not None:
        _check_choices(wire.n, 1, "n", max_choices)
    if wire.best_of is not None:
        _check_best_of(wire, wire.best_of, 1, max_choices)
    if wire.top_logprobs is not None and wire.logprobs is not True:
        raise InvalidRequest("top_logprobs needs logprobs: true", param="top_logprobs")
    try:
        messages, tools, choice, form = _inside(wire, strictly=True)
        nested = False
    except InvalidRequest:
        messages, tools, choice, form = _inside(wire, strictly=False)
        nested = True
    calls = wire.parallel_tool_calls
    include_usage, continuous_usage, optional = (
        NO_OPTIONS
        if wire.stream_options is UNSET
        else read_stream_options(wire.stream_options, extra)
    )
    # By position, in the order of the fields: a call with more than 15 keywords goes through a
    # dictionary, which takes twice the time.
    return ChatRequest(
        model_name(wire.model, model),
        messages,
        _sampling(wire, max_tokens, wire.logprobs, wire.top_logprobs),
        tools,
        choice,
        UNSET if calls is None or tools is UNSET else calls,  # parallel_tool_calls
        form,
        UNSET if wire.reasoning_effort is None else wire.reasoning_effort,
        wire.stream or False,
        include_usage,
        continuous_usage,
        UNSET if wire.user is None else wire.user,
        UNSET if wire.metadata is UNSET else _metadata(wire.metadata),
        UNSET if wire.priority is None else wire.priority,
        UNSET if wire.timeout is None else wire.timeout,
        max_tokens_field,
        extra,
        nested,
        optional,
    )


_Inside = tuple[
    tuple[Message, ...],
    tuple[Tool, ...] | UnsetType,
    ToolChoice | UnsetType,
    ResponseFormat | UnsetType,
]


def _inside(wire: ChatWire, *, strictly: bool) -> _Inside:
    """Parse messages, tools, tool choice and response format. Raises InvalidRequest."""
    tools = read_tools(wire.tools, strictly=strictly) if wire.tools else UNSET
    messages = read_messages(wire.messages, strictly=strictly)
    choice, form = wire.tool_choice, wire.response_format
    return (
        messages,
        tools,
        UNSET if choice is UNSET else read_tool_choice(choice, tools, strictly=strictly),
        UNSET if form is UNSET else read_response_format(form, strictly=strictly),
    )


def parse_completion(
    body: bytes,
    *,
    model: str = "",
    max_choices: int = MAX_CHOICES,
    raw_prompt: bool = True,
    reader: BodyReader[CompletionWire] = COMPLETION_READER,
) -> CompletionRequest:
    """`POST /v1/completions`.

    model, max_choices, reader: as for `parse_chat`; choices are prompts x n.
    raw_prompt:                 default of `use_raw_prompt`.
    Raises InvalidRequest.
    """
    wire, extra = reader.read(body)
    prompts, batch = read_prompts(wire.prompt, "prompt")
    _check_choices(wire.n, len(prompts), "n", max_choices)
    if wire.best_of is not None:
        _check_best_of(wire, wire.best_of, len(prompts), max_choices)
    if wire.max_tokens == 0 and wire.echo is not True:
        raise InvalidRequest(
            f"max_tokens must be {COMPLETION_ALLOWED['max_tokens']}", param="max_tokens"
        )
    top, raw = wire.logprobs, wire.use_raw_prompt
    include_usage, continuous_usage, optional = (
        NO_OPTIONS
        if wire.stream_options is UNSET
        else read_stream_options(wire.stream_options, extra)
    )
    return CompletionRequest(
        model=model_name(wire.model, model),
        prompts=prompts,
        batch=batch,
        sampling=_sampling(wire, wire.max_tokens, None if top is None else True, top),
        echo=UNSET if wire.echo is None else wire.echo,
        suffix=UNSET if wire.suffix is None else wire.suffix,
        template=not (raw_prompt if raw is None else raw),
        error_behavior=UNSET if wire.error_behavior is None else wire.error_behavior,
        stream=wire.stream or False,
        include_usage=include_usage,
        continuous_usage=continuous_usage,
        user=UNSET if wire.user is None else wire.user,
        priority=UNSET if wire.priority is None else wire.priority,
        timeout_s=UNSET if wire.timeout is None else wire.timeout,
        extra=extra,
        optional=optional,
    )


def parse_embeddings(
    body: bytes, *, model: str = "", reader: BodyReader[EmbeddingsWire] = EMBEDDINGS_READER
) -> EmbeddingsRequest:
    """`POST /v1/embeddings`. model, reader: as for `parse_chat`. Raises InvalidRequest."""
    wire, extra = reader.read(body)
    check_whole(wire.stream)
    inputs, batch = read_prompts(wire.input, "input")
    if len(inputs) > MAX_INPUTS:
        raise InvalidRequest(f"input must have at most {MAX_INPUTS} entries", param="input")
    for place, text in enumerate(inputs):
        if not text:
            where = f"input[{place}]" if batch else "input"
            raise InvalidRequest(f"{where} must not be empty", param=where)
    return EmbeddingsRequest(
        model=model_name(wire.model, model),
        inputs=inputs,
        batch=batch,
        instruction=UNSET if wire.instruction is None else wire.instruction,
        base64=wire.encoding_format == "base64",
        dimensions=UNSET if wire.dimensions is None else wire.dimensions,
        user=UNSET if wire.user is None else wire.user,
        timeout_s=UNSET if wire.timeout is None else wire.timeout,
        extra=extra,
    )


def _sampling(
    wire: SamplingWire,
    max_tokens: int | None,
    logprobs: bool | None,
    top_logprobs: int | None,
) -> Sampling:
    common = Sampling(
        temperature=UNSET if wire.temperature is None else wire.temperature,
        top_p=UNSET if wire.top_p is None else wire.top_p,
        max_tokens=UNSET if max_tokens is None else max_tokens,
        stop=UNSET if wire.stop is None else _stop(wire.stop),
        seed=UNSET if wire.seed is None else _seed(wire.seed),
        presence_penalty=UNSET if wire.presence_penalty is None else wire.presence_penalty,
        frequency_penalty=UNSET if wire.frequency_penalty is None else wire.frequency_penalty,
        logprobs=UNSET if logprobs is None else logprobs,
        top_logprobs=UNSET if top_logprobs is None else top_logprobs,
        n=UNSET if wire.n is None else wire.n,
        best_of=UNSET if wire.best_of is None else wire.best_of,
    )
    # The rare fields one by one: that takes half the time of any expression that lists them.
    if (
        wire.top_k is None
        and wire.min_p is None
        and wire.typical_p is None
        and wire.min_tokens is None
        and wire.stop_token_ids is None
        and wire.bad_words is None
        and wire.ignore_eos is None
        and wire.repetition_penalty is None
        and wire.no_repeat_ngram_size is None
        and wire.logit_bias is None
        and wire.beam_width is None
        and wire.length_penalty is None
        and wire.early_stopping is None
    ):
        return common
    return replace(
        common,
        top_k=UNSET if wire.top_k is None else wire.top_k,
        min_p=UNSET if wire.min_p is None else wire.min_p,
        typical_p=UNSET if wire.typical_p is None else wire.typical_p,
        min_tokens=UNSET if wire.min_tokens is None else wire.min_tokens,
        stop_token_ids=wire.stop_token_ids or UNSET,
        bad_words=wire.bad_words or UNSET,
        ignore_eos=UNSET if wire.ignore_eos is None else wire.ignore_eos,
        repetition_penalty=UNSET if wire.repetition_penalty is None else wire.repetition_penalty,
        no_repeat_ngram_size=(
            UNSET if wire.no_repeat_ngram_size is None else wire.no_repeat_ngram_size
        ),
        logit_bias=wire.logit_bias or UNSET,
        beam_width=UNSET if wire.beam_width is None else wire.beam_width,
        length_penalty=UNSET if wire.length_penalty is None else wire.length_penalty,
        early_stopping=UNSET if wire.early_stopping is None else wire.early_stopping,
    )


def _stop(stop: str | tuple[str, ...]) -> tuple[str, ...] | UnsetType:
    """Drop empty strings: they stop nothing, and neither does an empty list."""
    given = (stop,) if isinstance(stop, str) else stop
    return tuple([one for one in given if one]) or UNSET


def _seed(seed: int) -> int:
    if not -(2**63) <= seed < 2**64:
        raise InvalidRequest(f"seed must be {ALLOWED['seed']}", param="seed")
    return seed


def _chat_max_tokens(
    wire: ChatWire,
) -> tuple[int | None, Literal["max_tokens", "max_completion_tokens"] | UnsetType]:
    old, new = wire.max_tokens, wire.max_completion_tokens
    if new is None:
        return old, UNSET if old is None else "max_tokens"
    if old is not None and old != new:
        raise InvalidRequest(
            "max_tokens and max_completion_tokens mean the same; send only one of them",
            param="max_tokens",
        )
    return new, "max_completion_tokens"


def _check_choices(n: int | None, prompts: int, field: str, most: int) -> None:
    each = n or 1
    if each * prompts <= most:
        return
    if prompts == 1:
        raise InvalidRequest(f"{field} must be at most {most}", param=field)
    raise InvalidRequest(
        f"{prompts} prompts x {field} {each} is more than the maximum of {most} choices "
        "per request",
        param="prompt" if each == 1 else field,
    )


def _check_best_of(wire: SamplingWire, best_of: int, prompts: int, most: int) -> None:
    n = wire.n or 1
    if best_of < n:
        raise InvalidRequest("best_of must be at least n", param="best_of")
    if wire.stream and best_of > n:
        raise InvalidRequest("best_of must equal n if the answer is streamed", param="best_of")
    _check_choices(best_of, prompts, "best_of", most)


def _metadata(raw: Raw) -> Raw | UnsetType:
    if is_null(raw):
        return UNSET
    if not is_object(raw):
        raise InvalidRequest("metadata must be an object", param="metadata")
    return raw


def _kinds(items: tuple[object, ...]) -> set[type]:
    if len(items) <= _MANY:
        return set(map(type, items))
    pieces = (items[at : at + _MANY] for at in range(0, len(items), _MANY))
    return {kind for piece in pieces for kind in set(map(type, piece))}


def read_prompts(
    given_prompt: str | tuple[str | int | tuple[int, ...], ...], field: str
) -> tuple[tuple[Prompt, ...], bool]:
    """Return the prompts, and whether they came as a list."""
    if isinstance(given_prompt, str):
        return (given_prompt,), False
    if not given_prompt:
        raise InvalidRequest(f"{field} must not be empty", param=field)
    kinds = _kinds(given_prompt)
    if kinds == {str}:
        return cast(tuple[str, ...], given_prompt), True
    if kinds == {int}:
        return (cast(tuple[int, ...], given_prompt),), False
    if kinds != {tuple}:
        raise InvalidRequest(f"{field} must be {ALLOWED[field]}", param=field)
    lists = cast(tuple[tuple[int, ...], ...], given_prompt)
    for place, ids in enumerate(lists):
        if not ids:
            where = f"{field}[{place}]"
            raise InvalidRequest(f"{where} must not be empty", param=where)
    return lists, True
