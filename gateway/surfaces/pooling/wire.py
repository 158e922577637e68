"""The bodies of scoring and classification, and the answers of pooling. A null counts as absent.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#score-api,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#classification-api,
https://huggingface.github.io/text-embeddings-inference, https://api.jina.ai/redoc#tag/classify
"""

from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import MODEL_NAME
from strowger_gateway.gateway.surfaces.openai.wire import Model, Seconds

Texts = str | tuple[str, ...]


class TextItem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Jina's form of a text."""

    text: str


class ScoreWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Pairs of texts: one with one, one with many, or many with as many.

    text_1, data_1, queries: the first of each pair, three names of the same field.
    text_2, data_2, documents, items: the second.
    raw_scores: scores without the sigmoid.
    stream: not true, as the answer is always whole.
    """

    model: Model | None = None
    text_1: Texts | None = None
    text_2: Texts | None = None
    data_1: Texts | None = None
    data_2: Texts | None = None
    queries: Texts | None = None
    documents: Texts | None = None
    items: Texts | None = None
    instruction: str | None = None
    truncation: bool | None = None
    raw_scores: bool | None = None
    stream: bool | None = None
    user: str | None = None
    timeout: Seconds | None = None


class ClassifyWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Texts to classify.

    input:  vLLM's name, and Jina's. inputs: TEI's: a text, a pair, or a list of either.
    labels: the classes, for models that have none of their own.
    raw_scores: scores without the softmax.
    """

    model: Model | None = None
    input: str | tuple[str | TextItem, ...] | None = None
    inputs: str | tuple[str | tuple[str, ...], ...] | None = None
    labels: tuple[str, ...] | None = None
    truncation: bool | None = None
    truncate: bool | None = None
    raw_scores: bool | None = None
    stream: bool | None = None
    user: str | None = None
    timeout: Seconds | None = None


_TEXTS: Final = "a string, or a list of strings"

ALLOWED: Final[dict[str, str]] = {
    "model": MODEL_NAME,
    **dict.fromkeys(
        ("text_1", "text_2", "data_1", "data_2", "queries", "documents", "items"), _TEXTS
    ),
    "input": f"{_TEXTS}, or of objects with the string `text`",
    "input[]": "a string, or an object with the string `text`",
    "inputs": "a string, a pair of strings, or a list of texts and pairs",
    "labels": "a list of strings",
    "stream": "true or false",
    "timeout": "seconds, a number above 0 and up to 3600",
}


class Counts(Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    total_tokens: int
    completion_tokens: int = 0


class ScoreOfPair(Struct, frozen=True, kw_only=True):
    index: int
    object: str = "score"
    score: float


class ScoreList(Struct, frozen=True, kw_only=True):
    """One score per pair, in order. vLLM's."""

    id: str
    object: str = "list"
    created: int
    model: str
    data: list[ScoreOfPair]
    usage: Counts


class Prediction(Struct, frozen=True, kw_only=True):
    """TEI's answer to one input is a list of these, the likeliest first."""

    label: str
    score: float


class ClassesOfInput(Struct, frozen=True, kw_only=True):
    """label, prediction: the likeliest class. probs: of each class, score: of the likeliest.

    predictions: the classes by name, if the backend names them.
    """

    index: int
    object: str = "classification"
    label: str
    probs: tuple[float, ...]
    num_classes: int
    prediction: str
    score: float
    predictions: list[Prediction] | UnsetType = UNSET


class ClassList(Struct, frozen=True, kw_only=True):
    """The classes of each input, in order. vLLM's and Jina's."""

    id: str
    object: str = "list"
    created: int
    model: str
    data: list[ClassesOfInput]
    usage: Counts


class PooledInput(Struct, frozen=True, kw_only=True):
    """data: a list of numbers, a list of them per token, or base64 of them, as the backend sent."""

    index: int
    object: str = "pooling"
    data: Raw


class PooledList(Struct, frozen=True, kw_only=True):
    """What the model has computed of each input, in order. vLLM's."""

    id: str
    object: str = "list"
    created: int
    model: str
    data: list[PooledInput]
    usage: Counts
