"""Facts about a conversation's content: what request repairs depend on.

A fact is one bit. A repair rule names the facts without which it has nothing to do, so a request
without them costs no rule a look (adapters/repairs/rule.py). `message_facts` is on the path of
every chat; the others are read only when a plan is not cached.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import UNSET

from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueTool,
    TextPart,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, Original, Request, WholeRequest
from strowger_gateway.schemas.sampling import Sampling

DEVELOPER: Final = 1 << 0
LATER_SYSTEM: Final = 1 << 1
NAMES: Final = 1 << 2
CALLS: Final = 1 << 3
THOUGHTS: Final = 1 << 4
PARTS: Final = 1 << 5
TOOL_MEDIA: Final = 1 << 6
IMAGES: Final = 1 << 7
OPAQUE: Final = 1 << 8
OLD_LIMIT: Final = 1 << 9
TOOLS: Final = 1 << 10
FORMAT: Final = 1 << 11
EFFORT: Final = 1 << 12
SAMPLING: Final = 1 << 13
EXTRA: Final = 1 << 14
NESTED: Final = 1 << 15
BEGUN: Final = 1 << 16
STRICT_TOOLS: Final = 1 << 17
NO_CALLS: Final = 1 << 18
ONE_CALL: Final = 1 << 19
FORCED: Final = 1 << 20
STOPS: Final = 1 << 21
SAMPLED: Final = 1 << 22
THINKING: Final = 1 << 23
BLANK: Final = 1 << 24
LATE_USER: Final = 1 << 25
LAST_ANSWER: Final = 1 << 26
HEADS: Final = 1 << 27
ODD_USER: Final = 1 << 28
METADATA: Final = 1 << 29
NEIGHBOURS: Final = 1 << 30
REASONED: Final = 1 << 31

MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        DEVELOPER: "a message has the role developer",
        LATER_SYSTEM: "a system or developer message follows another message",
        NAMES: "a message has a name",
        CALLS: "the conversation has calls of tools, or their results",
        THOUGHTS: "the client sends back reasoning",
        PARTS: "a message has content parts",
        TOOL_MEDIA: "a tool's result has more than text",
        IMAGES: "a message has an image",
        OPAQUE: "a part or a tool is of a type outside the schema",
        OLD_LIMIT: "the limit is not sent as max_completion_tokens",
        TOOLS: "the request offers tools",
        FORMAT: "the request has a response format",
        EFFORT: "the request has a reasoning effort",
        SAMPLING: "the request sets sampling parameters",
        EXTRA: "the request has top-level fields outside the schema",
        NESTED: "messages or tools have fields outside the schema",
        BEGUN: "the last message begins the answer",
        STRICT_TOOLS: "the request offers strict functions",
        NO_CALLS: "the request forbids calls",
        ONE_CALL: "the request forbids more than one call at a time",
        FORCED: "the request forces a call",
        STOPS: "the request has stop strings",
        SAMPLED: "the request sets how tokens are drawn",
        THINKING: "a client of the Messages API says how the model thinks",
        BLANK: "a message has no text",
        LATE_USER: "the conversation does not begin with the user",
        LAST_ANSWER: "the last message is an answer",
        HEADS: "several system or developer messages begin the conversation",
        ODD_USER: "the client names its user in another way than all vendors take",
        METADATA: "the request has metadata",
        NEIGHBOURS: "two messages of one role follow each other",
        REASONED: "a client of the Responses API sends back reasoning items",
    }
)
"""What each fact says of a request."""

_PLAIN_USER: Final = re.compile(r"[A-Za-z0-9_.:-]{0,64}")
"""A user's name that every vendor takes: no longer, not a mail address, and without quotes."""

DRAWS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
)
"""The sampling parameters that models which reason may not take."""

VALUES_DECIDE: Final = PARTS | THOUGHTS
"""Facts of requests whose plans are never cached."""

OF_FIELDS: Final = (
    OLD_LIMIT
    | TOOLS
    | EFFORT
    | SAMPLING
    | STRICT_TOOLS
    | NO_CALLS
    | ONE_CALL
    | FORCED
    | STOPS
    | SAMPLED
)
"""Facts about fields other than the messages: a repair for these alone reads no text, so that it
does the same to each request with equal values. FORMAT and THINKING are not among them, because
repairs for them read the conversation or write to it; nor are ODD_USER and METADATA, whose values
rarely repeat."""


def message_facts(messages: Sequence[Message]) -> int:
    """Return the facts of the messages alone, as bits."""
    # Most messages are texts of the user, and of the system before it: these come first and fast.
    bits = 0
    begun = headed = False
    before = ""
    for one in messages:
        role, content = one.role, one.content
        if (
            type(content) is str
            and content
            and one.name is UNSET
            and role != before
            and not content.isspace()
        ):
            if role == "user":
                begun, before = True, role
                continue
            if role == "system" and not before:
                headed, before = True, role
                continue
        if role == before:
            bits |= NEIGHBOURS
        before = role
        if role == "user":
            begun = True
        elif role == "assistant":
            if not begun:
                bits |= LATE_USER
            begun = True
            if one.tool_calls:
                bits |= CALLS
            if one.thoughts or one.reasoning is not UNSET or one.signature is not UNSET:
                bits |= THOUGHTS
        elif role == "system" or role == "developer":
            if role == "developer":
                bits |= DEVELOPER
            if begun:
                bits |= LATER_SYSTEM
            elif headed:
                bits |= HEADS
            headed = True
        else:
            bits |= CALLS if begun else CALLS | LATE_USER
            begun = True
        if isinstance(content, tuple):
            bits |= _part_facts(one)
        elif not content or content.isspace():
            bits |= 0 if one.tool_calls else BLANK
        if one.name is not UNSET:
            bits |= NAMES
    if not begun:
        bits |= LATE_USER
    elif messages[-1].role == "assistant":
        bits |= LAST_ANSWER
    return bits


def facts_of(request: Request) -> int:
    """Return all facts of a request, as bits; tasks other than chats have few."""
    if not isinstance(request, ChatRequest):
        bits = EXTRA if request.extra else 0
        return bits if isinstance(request, WholeRequest) else bits | _stops(request.sampling)
    bits = message_facts(request.messages)
    if has_old_limit(request):
        bits |= OLD_LIMIT
    if request.tools and any(isinstance(one, OpaqueTool) for one in request.tools):
        bits |= OPAQUE
    bits |= tool_facts(request)
    if has_odd_user(request):
        bits |= ODD_USER
    if request.metadata is not UNSET:
        bits |= METADATA
    if request.response_format is not UNSET:
        bits |= FORMAT
    if request.reasoning_effort is not UNSET:
        bits |= EFFORT
    if request.sampling != _NO_SAMPLING:
        bits |= SAMPLING | _stops(request.sampling)
        if any(getattr(request.sampling, name) is not UNSET for name in DRAWS):
            bits |= SAMPLED
    if request.original is not None:
        bits |= original_facts(request.original)
    if request.extra:
        bits |= EXTRA
    if request.nested:
        bits |= NESTED
    if request.begun:
        bits |= BEGUN
    return bits


def original_facts(original: Original) -> int:
    """Return the facts of what a client wrote in another dialect than OpenAI's, as bits."""
    fields = original.fields
    if original.dialect != "anthropic":
        return REASONED if b'"reasoning"' in bytes(fields.get("input", b"")) else 0
    return THINKING if "thinking" in fields or "output_config" in fields else 0


def _stops(sampling: Sampling) -> int:
    """A plan is cached for all values of a field, so an empty list counts as well."""
    return 0 if sampling.stop is UNSET else STOPS


def has_odd_user(request: ChatRequest) -> bool:
    """Return whether the name of the client's user is one that some vendors refuse."""
    return request.user is not UNSET and _PLAIN_USER.fullmatch(request.user) is None


def has_old_limit(request: ChatRequest) -> bool:
    """Return whether the request has a limit under another name than `max_completion_tokens`."""
    limit = request.sampling.max_tokens
    return (
        limit is not UNSET
        and limit is not None
        and request.max_tokens_field != "max_completion_tokens"
    )


def tool_facts(request: ChatRequest) -> int:
    """Return the facts of a request's tools and of what it says about calls, as bits."""
    bits = TOOLS if request.tools else 0
    for one in request.tools or ():
        if isinstance(one, FunctionTool) and one.strict is True:
            bits |= STRICT_TOOLS
    choice = request.tool_choice
    if isinstance(choice, ToolChoice):
        if choice.mode == "none":
            bits |= NO_CALLS
        elif choice.mode != "auto":
            bits |= FORCED
    if request.parallel_tool_calls is False:
        bits |= ONE_CALL
    return bits


def _part_facts(message: Message) -> int:
    bits = PARTS
    for part in message.content or ():
        if isinstance(part, TextPart):
            continue
        if isinstance(part, ImagePart):
            bits |= IMAGES
        elif isinstance(part, OpaquePart):
            bits |= OPAQUE
        if message.role == "tool":
            bits |= TOOL_MEDIA
    return bits


_NO_SAMPLING: Final = ChatRequest("", ()).sampling
