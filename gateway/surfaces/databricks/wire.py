"""Databricks' wire format, where it differs from the OpenAI dialect.

https://docs.databricks.com/en/machine-learning/foundation-model-apis/api-reference.html
"""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.wire import (
    ALLOWED,
    CHAT_ALLOWED,
    ChatWire,
    CompletionWire,
    Count,
    EmbeddingsWire,
    PositiveUnit,
)

Texts = Annotated[tuple[str, ...], Meta(min_length=1)]


class InvocationWire(Struct, frozen=True, kw_only=True):
    """`POST /serving-endpoints/{name}/invocations`: a body for one of three tasks.

    Exactly one of messages, prompt and input is present; the other fields belong to that task.
    model:        the same name as in the path, if present.
    extra_params: further fields, each as a string.
    """

    model: str | None = None
    messages: Raw | UnsetType = UNSET
    prompt: Raw | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    extra_params: Raw | UnsetType = UNSET
    dataframe_records: Raw | UnsetType = UNSET
    dataframe_split: Raw | UnsetType = UNSET
    instances: Raw | UnsetType = UNSET
    inputs: Raw | UnsetType = UNSET


class DatabricksChatWire(ChatWire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /serving-endpoints/chat/completions`."""

    top_p: PositiveUnit | None = None


class DatabricksCompletionWire(
    CompletionWire, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """`POST /serving-endpoints/completions`. suffix: appended to each completion."""

    prompt: str | Texts
    top_p: PositiveUnit | None = None
    max_tokens: Count | None = None


class DatabricksEmbeddingsWire(
    EmbeddingsWire, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """`POST /serving-endpoints/embeddings`."""

    input: str | Texts


_TEXTS: Final = "a string or a list of at least one string"
_HERE: Final = {
    "top_p": "a number above 0 and up to 1",
    "prompt": _TEXTS,
    "prompt[]": "a string",
    "input": _TEXTS,
    "input[]": "a string",
}

DATABRICKS_CHAT_ALLOWED: Final = {**CHAT_ALLOWED, **_HERE}
DATABRICKS_COMPLETION_ALLOWED: Final = {
    **ALLOWED,
    **_HERE,
    "logprobs": "an integer from 0 to 5",
}
DATABRICKS_EMBEDDINGS_ALLOWED: Final = {**ALLOWED, **_HERE}
