"""MindIE's `/v1/chat/completions`: the OpenAI dialect, without fields that it silently ignores.

Text is a string instead of a list of parts, an image is a bare URL. A
stream has the usage of each choice in the chunk that ends it, so the counts are added up here.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct

from strowger_gateway.adapters.base import Endpoint, Outbound, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.mindie.decode import CUMULATIVE, FAILED, STOPPED
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.answer_head import usage_from
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.adapters.openai.encode import Body, encode_body, message, part
from strowger_gateway.adapters.openai.vendor_profiles import VendorProfile
from strowger_gateway.adapters.openai.wire import OpenChunk
from strowger_gateway.schemas.errors import InvalidRequest, UpstreamBroken
from strowger_gateway.schemas.events import Event, Usage
from strowger_gateway.schemas.messages import FunctionTool, ImagePart, Message, TextPart
from strowger_gateway.schemas.requests import (
    ChatRequest,
    GenerateRequest,
    Request,
    expected_choices,
)

MINDIE = VendorProfile(name="mindie", stream_usage=False, completion=False, embeddings=False)
"""Usage comes without being requested, and `stream_options` is not read."""

CHAT = frozenset(
    {
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "stop",
        "stop_token_ids",
        "ignore_eos",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "n",
        "best_of",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "response_format",
        "messages.image",
        "messages.remote_image",
    }
)
EXTRA = frozenset(
    {
        "chat_template",
        "chat_template_kwargs",
        "include_stop_str_in_output",
        "skip_special_tokens",
        "use_beam_search",
    }
)
"""Fields outside our schema that the server reads; it silently ignores all others."""

TOOL_NAME = re.compile(r"[a-zA-Z0-9_\u4e00-\u9fa5-]{1,64}")

_FULL_TEXT = b'"full_text"'


class _FullText(Struct, frozen=True, kw_only=True):
    full_text: str | None = None


_full_text = msgspec.json.Decoder(_FullText).decode


class MindIEChat(OpenAIAdapter):
    """Chat requests of the adapter; `endpoint`'s base URL ends with `/v1`."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, MINDIE)

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest):
            _check_tools(request)
            sampling = request.sampling
            if sampling.top_p == 0:
                sampling = msgspec.structs.replace(sampling, temperature=0.0, top_p=UNSET)
            request = msgspec.structs.replace(
                request,
                messages=tuple(
                    _rewritten(one, place) for place, one in enumerate(request.messages)
                ),
                sampling=sampling,
                max_tokens_field="max_tokens",
            )
        return super().encode(request, model)

    def decoder(self, request: GenerateRequest) -> "MindIEChatDecoder":
        return MindIEChatDecoder(
            self.endpoint,
            stream=request.stream,
            choices=expected_choices(request),
            stops=bool(request.sampling.stop or request.sampling.stop_token_ids),
        )

    def supported(self) -> Supports:
        return Supports(client_fields=withheld("mindie"), chat=CHAT)


class MindIEChatDecoder(OpenAIDecoder):
    """stops: the request has stop strings or stop tokens."""

    def __init__(self, endpoint: Endpoint, *, stream: bool, choices: int, stops: bool) -> None:
        super().__init__(endpoint, stream=stream, choices=choices)
        self.failed = FAILED if stops else FAILED | {STOPPED}
        self._upstream = endpoint.name
        self._choice_counts: dict[int, Usage] = {}

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if _FULL_TEXT in data and _is_cumulative(data):
            raise UpstreamBroken(
                f"each piece repeats the text before it; {CUMULATIVE}", upstream=self._upstream
            )
        return super().feed(event, data)

    def usage(self, chunk: OpenChunk) -> Usage | None:
        """Return totals over the counted choices. A chunk with one choice has that one's usage."""
        if chunk.usage == NULL:
            return None
        found = usage_from(chunk.usage)
        if len(chunk.choices) != 1:
            return found
        self._choice_counts[chunk.choices[0].index] = found
        return found if len(self._choice_counts) == 1 else _added(self._choice_counts)


def _is_cumulative(data: bytes) -> bool:
    try:
        return _full_text(data).full_text is not None
    except UNREADABLE:
        return False


def _added(counts: Mapping[int, Usage]) -> Usage:
    """Add up; the prompt is the same for all choices and counts once."""
    first = next(iter(counts.values()))
    completion = _sum([one.completion_tokens for one in counts.values()])
    known = first.prompt_tokens is not None and completion is not None
    return Usage(
        prompt_tokens=first.prompt_tokens,
        completion_tokens=completion,
        total_tokens=(first.prompt_tokens or 0) + (completion or 0) if known else None,
        cached_tokens=first.cached_tokens,
        reasoning_tokens=_sum([one.reasoning_tokens for one in counts.values()]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum; `None` if one count is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _check_tools(request: ChatRequest) -> None:
    for place, tool in enumerate(request.tools or ()):
        if isinstance(tool, FunctionTool) and not TOOL_NAME.fullmatch(tool.name):
            field = f"tools[{place}].function.name"
            raise InvalidRequest(
                f"{field}: this backend accepts 1 to 64 letters, digits, Chinese characters, "
                "underscores and dashes",
                param=field,
            )


def _rewritten(one: Message, place: int) -> Message:
    """Rewrite parts that are all text to one string."""
    if not isinstance(one.content, tuple):
        return one
    fields: Body = {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)
    texts = [piece.text for piece in one.content if isinstance(piece, TextPart)]
    if len(texts) == len(one.content):
        fields["content"] = "".join(texts)
    else:
        fields["content"] = [
            _image(piece, place) if isinstance(piece, ImagePart) else part(piece)
            for piece in one.content
        ]
    return msgspec.structs.replace(one, raw=Raw(encode_body(fields)))


def _image(piece: ImagePart, place: int) -> Body:
    """Encode an image; the server has no levels of detail."""
    if piece.detail not in (UNSET, "auto"):
        field = f"messages[{place}].content"
        raise InvalidRequest(
            f"{field}: this backend supports only image_url.detail auto; leave it out",
            param=field,
        )
    return {"type": "image_url", "image_url": piece.url}
