"""How servers of the Responses API differ: a row each, next to the API's own reference.

https://platform.openai.com/docs/api-reference/responses/create
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from strowger_gateway.adapters.base import Range
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.schemas.messages import OPENAI, ThoughtKind

SAMPLING: Mapping[str, str] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max_output_tokens",
        "top_logprobs": "top_logprobs",
    }
)
"""Our names -> the wire's. `logprobs` is a name in `include`."""

CHAT = frozenset(
    {
        *SAMPLING,
        "logprobs",
        "tools",
        "tools.opaque",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "user",
        "metadata",
        "messages.image",
        "messages.remote_image",
        "messages.opaque",
    }
)

TRANSLATED = MappingProxyType(
    {
        "max_tokens": "max_output_tokens",
        "logprobs": "include (message.output_text.logprobs)",
        "tools": "tools[].parameters",
        "response_format": "text.format",
        "reasoning_effort": "reasoning.effort",
        "messages.image": "input[].content[].image_url",
        "messages.remote_image": "input[].content[].image_url",
        "messages.opaque": "input[].content[].file_data (files)",
    }
)

EXTRA = frozenset(
    {
        "context_management",
        "include",
        "max_tool_calls",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "stream_options",
        "text",
        "truncation",
        "verbosity",
    }
)
"""The API's own fields, sent unchanged; `verbosity` is in `text`. Without those that store."""

REASONS = re.compile(r"(.*/)?(o\d|gpt-5(?!(\.\d+)?-chat)|gpt-[6-9]|codex|computer-use)")
"""Models of OpenAI's that reason; others reject a request for encrypted reasoning."""


class ResponsesRow(Struct, frozen=True, kw_only=True):
    """name: the adapter's, and its table of withheld fields.

    sampling, chat, extra, ranges: the fields, as in `Supports`; our sampling names -> the wire's.
    thoughts: the kinds of other servers' reasoning that it reads.
    proofs: formats of encrypted reasoning that it reads, and asks for.
    thought: where reasoning is in the input, if it reads its text.
    whole: it has the API's own tools, items and events; clients of the API keep them.
    json_object: it has the answer format `json_object`.
    sources: it names the pages that a search found, if it is asked to.
    key: the header of the key; `authorization` has a bearer token.
    repairs: rules for requests that the server would refuse.
    compacts: it summarises long conversations, by `compaction_trigger` and by a route of its own.
    """

    name: str
    sampling: Mapping[str, str] = SAMPLING
    chat: frozenset[str] = CHAT
    extra: frozenset[str] = EXTRA
    ranges: Mapping[str, Range] = {}
    translated: Mapping[str, str] = {}
    thoughts: frozenset[ThoughtKind] = frozenset()
    proofs: frozenset[str] = frozenset({OPENAI})
    thought: Literal["content", "encrypted_content"] = "content"
    whole: bool = True
    json_object: bool = True
    sources: bool = False
    key: str = "authorization"
    repairs: tuple[Repair, ...] = ()
    compacts: bool = False
