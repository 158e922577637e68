"""MindIE's /infer_token wire format, with the range of every field.

A null counts as absent, so `None` means either. Source: MindIE LLM's documentation of the token
interface.
"""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

MAX_TOKEN_ID: Final = 1024 * 1024
MAX_SEED: Final = 2**64 - 1
DEFAULT_NEW_TOKENS: Final = 20
"""Default number of generated tokens."""

TokenId = Annotated[int, Meta(ge=0, le=MAX_TOKEN_ID)]
TOKENS = Annotated[tuple[TokenId, ...], Meta(min_length=1)]
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class ParametersWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`parameters`. `seed` is checked in code: it is a uint64."""

    temperature: Positive | None = None
    top_k: Count | None = None
    top_p: Annotated[float, Meta(gt=0, lt=1)] | None = None
    typical_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_new_tokens: Annotated[Count, Meta(description="20 where absent")] | None = None
    do_sample: bool | None = None
    seed: Annotated[int, Meta(description="1 to 2^64-1; random where absent or null")] | None = None
    repetition_penalty: Positive | None = None
    details: bool | None = None
    watermark: bool | None = None
    priority: Annotated[int, Meta(ge=1, le=5, description="1 is first, 5 where absent")] | None = (
        None
    )
    timeout: Annotated[int, Meta(ge=1, le=3600, description="seconds")] | None = None


class PromptWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The top-level fields besides `parameters`."""

    input_id: TOKENS
    stream: bool | None = None


class InferTokenWire(PromptWire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /infer_token`, as documented."""

    parameters: ParametersWire | None = None


class InferTokenOuter(PromptWire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same with `parameters` left undecoded, so that unknown fields in it can be collected."""

    parameters: Raw | UnsetType = UNSET


PARAMETERS: Final = frozenset(ParametersWire.__struct_fields__)

_TOKEN_ID: Final = f"a token id, an integer from 0 to {MAX_TOKEN_ID}"
_COUNT: Final = f"an integer from 1 to {2**31 - 1}"

ALLOWED: Final[dict[str, str]] = {
    "input_id": "a list of at least one token id",
    "input_id[]": _TOKEN_ID,
    "stream": "true or false",
    "parameters": "an object",
    "parameters.temperature": "a number above 0",
    "parameters.top_k": _COUNT,
    "parameters.top_p": "a number above 0 and below 1; leave it out for 1",
    "parameters.typical_p": "a number above 0 and up to 1",
    "parameters.max_new_tokens": _COUNT,
    "parameters.do_sample": "true or false",
    "parameters.seed": "an integer from 1 to 2^64-1, or null",
    "parameters.repetition_penalty": "a number above 0",
    "parameters.details": "true or false",
    "parameters.watermark": "true or false",
    "parameters.priority": "an integer from 1 (first) to 5",
    "parameters.timeout": "a whole number of seconds from 1 to 3600",
}
"""What each field must be; used in messages of 400s. Paths have no indices."""
