"""What surrounds the parts of one candidate: log probabilities, why it ended, Google's own fields.

https://ai.google.dev/api/generate-content#candidate
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.adapters.generated_images import IMAGES
from strowger_gateway.gateway.surfaces.gemini.grounding import grounding_metadata
from strowger_gateway.gateway.surfaces.gemini.proto import camel
from strowger_gateway.gateway.surfaces.openai.envelope import NEVER, encode
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.schemas.events import Finished, FinishReason, TokenLogprob
from strowger_gateway.schemas.searches import (
    ANNOTATIONS,
    SEARCHES,
    citations_of,
    whole_searches_of,
)

CONTENT: Final = "gemini_content"
"""An answer's own content, from a backend of this dialect; as whole answers have it."""

GROUNDING: Final = "grounding_metadata"

REASONS: Final[Mapping[FinishReason, str]] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "function_call": "STOP",
    "content_filter": "SAFETY",
}
OWN_REASONS: Final = frozenset(
    """
    STOP MAX_TOKENS CONTINUATION SAFETY RECITATION LANGUAGE OTHER BLOCKLIST PROHIBITED_CONTENT SPII
    MALFORMED_FUNCTION_CALL MODEL_ARMOR ESCALATION IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_OTHER
    NO_IMAGE IMAGE_RECITATION UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS
    """.split()  # noqa: SIM905  two dozen quoted strings are harder to read
)
"""A backend's own reasons that clients of this API know."""

_OURS: Final = frozenset(
    {
        *(ANNOTATIONS, SEARCHES, IMAGES, CONTENT, "gemini_parts"),
        *("content", "finish_reason", "index", "logprobs_result"),
    }
)


class _Url(Struct, frozen=True, kw_only=True):
    url: str = ""


class _Image(Struct, frozen=True, kw_only=True):
    image_url: _Url = _Url()


_images: Final = msgspec.json.Decoder(tuple[_Image, ...])


def finish_reason(finish: Finished) -> str:
    return finish.native if finish.native in OWN_REASONS else REASONS[finish.reason]


def is_googles(finish: Finished) -> bool:
    """Return whether the reason is Google's own word, not one that many vendors use."""
    return finish.native in OWN_REASONS


def own_members(fields: Mapping[str, Raw]) -> bytes:
    """Return a backend's further fields as `,"name":value` each, named as this API names fields."""
    return b"".join(
        [
            b",%b:%b" % (encode(camel(name)), one_line(bytes(raw)))
            for name, raw in fields.items()
            if name not in _OURS
        ]
    )


def grounding_member(fields: Mapping[str, Raw], text: str) -> bytes:
    """Return `groundingMetadata` of a search at another vendor; b"" if there was none."""
    if GROUNDING in fields:
        return b""
    found = grounding_metadata(whole_searches_of(fields), citations_of(fields), text)
    return b',"groundingMetadata":' + found if found else b""


def image_parts(fields: Mapping[str, Raw]) -> list[bytes]:
    """Return the images that a model has generated, as parts."""
    raw = fields.get(IMAGES)
    if raw is None:
        return []
    try:
        urls = [one.image_url.url for one in _images.decode(raw)]
    except (DecodeError, RecursionError):
        return []
    parts: list[bytes] = []
    for url in urls:
        head, comma, data = url.partition(",")
        kind, _, form = head.removeprefix("data:").partition(";")
        if comma and form == "base64":
            parts.append(encode({"inlineData": {"mimeType": kind, "data": data}}))
        elif url:
            parts.append(encode({"fileData": {"fileUri": url}}))
    return parts


def logprobs_member(logprobs: Sequence[TokenLogprob]) -> bytes:
    """Return `logprobsResult`; b"" for no tokens."""
    if not logprobs:
        return b""
    chosen = [_token(one) for one in logprobs]
    result: dict[str, object] = {"chosenCandidates": chosen}
    if any(one.top for one in logprobs):
        tops = [{"candidates": [_token(other) for other in one.top]} for one in logprobs]
        result["topCandidates"] = tops
    return b',"logprobsResult":' + encode(result)


def _token(one: TokenLogprob) -> dict[str, object]:
    id = {} if one.id < 0 else {"tokenId": one.id}
    logprob = NEVER if one.logprob is None else max(one.logprob, NEVER)
    return {"token": one.token, **id, "logProbability": logprob}
