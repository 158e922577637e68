"""Limits for the content of one request, generous but finite. No torch here.

The gateway checks them before it sends a request to an engine, and the engine checks them again.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET, UnsetType

from strowger_gateway.local_engine.text.text_length import Reach
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import FunctionTool, Message, TextPart, ToolCall
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Prompt,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling

MAX_STOPS, MAX_STOP_CHARACTERS = 128, 4096
"""Stop strings per request, and their total characters. Each token is compared with all of them."""

MAX_TOKEN_STOPS = 4096
"""stop_token_ids, and total tokens of stop_words."""

MAX_BAD_WORDS, MAX_BAD_CHARACTERS = 1024, 16384
"""bad_words and their total characters; bad_word_ids and their total tokens."""

MAX_BIASES = 32_768
"""Entries of logit_bias."""

MAX_DRAFT = 32_768
"""Tokens of draft_input_ids."""

MAX_PROMPTS = 4096
"""Prompts of a completion."""

MAX_MESSAGES = 32_768
MAX_CALLS = 1024
"""tool_calls per message, and tools per request."""

MAX_JSON = 1_000_000
"""Characters of one call's arguments, and total characters of all functions' parameters."""

MEASURED_AS_SENT = 1_000_000
"""Characters above which a conversation is measured as sent, even if the chat template would leave
out part of it. A shorter one is measured after rendering."""

TURN = 16
"""Characters added per message for its role and markers."""


def refuse_excess(request: GenerateRequest) -> None:
    """Raises InvalidRequest naming the first field that holds too many of something."""
    sampling = request.sampling
    if sampling.stop:
        _refuse("stop", len(sampling.stop), MAX_STOPS, "strings")
        _refuse("stop", _total(sampling.stop), MAX_STOP_CHARACTERS, "characters")
    if sampling.stop_token_ids:
        _refuse("stop_token_ids", len(sampling.stop_token_ids), MAX_TOKEN_STOPS, "tokens")
    if sampling.stop_words:
        _refuse("stop_words", _total(sampling.stop_words), MAX_TOKEN_STOPS, "tokens")
    if sampling.logit_bias:
        _refuse("logit_bias", len(sampling.logit_bias), MAX_BIASES, "entries")
    if sampling.bad_words is not UNSET or sampling.bad_word_ids is not UNSET:
        _refuse_bans(sampling)
    match request:
        case ChatRequest():
            _refuse_conversation(request)
        case CompletionRequest():
            _refuse("prompt", len(request.prompts), MAX_PROMPTS, "prompts")
        case TokenRequest() if request.draft is not UNSET:
            _refuse("draft_input_ids", len(request.draft.tokens), MAX_DRAFT, "tokens")
        case _:
            return


def refuse_unfit(request: GenerateRequest | EmbeddingsRequest, reach: Reach) -> None:
    """Raises InvalidRequest for a prompt that cannot fit, without tokenizing it."""
    match request:
        case TokenRequest():
            reach.refuse_count(len(request.tokens), "tokens")
        case EmbeddingsRequest():
            _refuse_prompts(request.inputs, "input", request.batch, reach)
        case CompletionRequest() if request.error_behavior != "truncate":
            _refuse_prompts(request.prompts, "prompt", request.batch, reach)
        case ChatRequest():
            _refuse_messages(request, reach)
        case _:
            return


def characters(request: GenerateRequest) -> int:
    """Return the size of a request: characters, tokens, and TURN per message."""
    match request:
        case ChatRequest():
            tools = 0 if request.tools is UNSET else sum(_size(tool) for tool in request.tools)
            return tools + sum(length(message) for message in request.messages)
        case CompletionRequest():
            return _total(request.prompts)
        case TokenRequest():
            return len(request.tokens)


def _refuse_conversation(request: ChatRequest) -> None:
    _refuse("messages", len(request.messages), MAX_MESSAGES, "messages")
    for place, message in enumerate(request.messages):
        if message.tool_calls:
            field = f"messages[{place}].tool_calls"
            _refuse(field, len(message.tool_calls), MAX_CALLS, "calls")
            for number, call in enumerate(message.tool_calls):
                where = f"{field}[{number}].function.arguments"
                _refuse(where, len(call.arguments), MAX_JSON, "characters")
    if request.tools:
        _refuse("tools", len(request.tools), MAX_CALLS, "tools")
        _refuse("tools", sum(_size(tool) for tool in request.tools), MAX_JSON, "characters")


def _refuse_bans(sampling: Sampling) -> None:
    if sampling.bad_words:
        _refuse("bad_words", len(sampling.bad_words), MAX_BAD_WORDS, "words")
        _refuse("bad_words", _total(sampling.bad_words), MAX_BAD_CHARACTERS, "characters")
    if sampling.bad_word_ids:
        _refuse("bad_word_ids", len(sampling.bad_word_ids), MAX_BAD_WORDS, "words")
        _refuse("bad_word_ids", _total(sampling.bad_word_ids), MAX_BAD_CHARACTERS, "tokens")


def _refuse_messages(request: ChatRequest, reach: Reach) -> None:
    if reach.characters is None:
        return
    texts = [text for message in request.messages for text in _texts(message)]
    if _total(texts) > max(MEASURED_AS_SENT, reach.tokens * reach.characters):
        reach.refuse("".join(texts), "messages")


def _refuse_prompts(prompts: Iterable[Prompt], field: str, batch: bool, reach: Reach) -> None:
    for place, prompt in enumerate(prompts):
        where = f"{field}[{place}]" if batch else field
        if isinstance(prompt, str):
            reach.refuse(prompt, where)
        else:
            reach.refuse_count(len(prompt), where)


def _texts(message: Message) -> Iterator[str]:
    content = message.content
    if isinstance(content, str):
        yield content
    elif content is not None:
        yield from (part.text for part in content if isinstance(part, TextPart))
    if message.reasoning:
        yield message.reasoning
    yield from (call.arguments for call in message.tool_calls)


def length(message: Message) -> int:
    """Return the size of a message in characters; templates read each level of arguments."""
    names = len(message.name or "") + len(message.tool_call_id or "")
    levels = sum(map(_levels, message.tool_calls))
    return TURN * (1 + len(message.tool_calls) + levels) + names + _total(_texts(message))


def _levels(call: ToolCall) -> int:
    return call.arguments.count("{") + call.arguments.count("[")


def _size(tool: object) -> int:
    if not isinstance(tool, FunctionTool):
        return TURN
    parameters = 0 if tool.parameters is UNSET else len(bytes(tool.parameters))
    return TURN + len(tool.name) + len(tool.description or "") + parameters


def _total(many: Iterable[Sequence[object]] | UnsetType) -> int:
    return 0 if isinstance(many, UnsetType) else sum(map(len, many))


def _refuse(field: str, count: int, most: int, what: str) -> None:
    if count > most:
        raise InvalidRequest(
            f"{field}: {count} {what} are too many; send at most {most}", param=field
        )
