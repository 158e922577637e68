"""One request as a vendor receives it, and the API that its path belongs to."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NoReturn, cast
from urllib.parse import unquote

import msgspec
from msgspec import Struct

Json = Mapping[str, object]

Api = Literal[
    "anthropic-messages",
    "anthropic-count",
    "anthropic-vertex",
    "bedrock-converse",
    "bedrock-count",
    "bedrock-invoke",
    "cohere-chat",
    "cohere-embed",
    "gemini-count",
    "gemini-embed",
    "gemini-generate",
    "mistral-fim",
    "ollama-chat",
    "ollama-embed",
    "ollama-generate",
    "openai-chat",
    "openai-completions",
    "openai-embeddings",
    "openai-responses",
    "tgi-generate",
]

APIS: Final[Sequence[tuple[str, Api]]] = (
    (r"/v1/messages/count_tokens", "anthropic-count"),
    (r"/v1/messages", "anthropic-messages"),
    (r"/publishers/anthropic/models/count-tokens:rawPredict", "anthropic-count"),
    (r"/publishers/anthropic/models/[^/]+:(r|streamR)awPredict", "anthropic-vertex"),
    (r"/model/[^/]+/converse(-stream)?", "bedrock-converse"),
    (r"/model/[^/]+/count-tokens", "bedrock-count"),
    (r"/model/[^/]+/invoke(-with-response-stream)?", "bedrock-invoke"),
    (r"/v2/chat", "cohere-chat"),
    (r"/v2/embed", "cohere-embed"),
    (r"/[a-zA-Z]+odels/[^/]+:(g|streamG)enerateContent", "gemini-generate"),
    (r"/models/[^/]+:countTokens", "gemini-count"),
    (r"/models/[^/]+:(batchEmbedContents|embedContent)", "gemini-embed"),
    (r"/fim/completions", "mistral-fim"),
    (r"/api/chat", "ollama-chat"),
    (r"/api/embed", "ollama-embed"),
    (r"/api/generate", "ollama-generate"),
    (r"/chat/completions", "openai-chat"),
    (r"/completions", "openai-completions"),
    (r"/embeddings", "openai-embeddings"),
    (r"/responses", "openai-responses"),
    (r"/generate(_stream)?", "tgi-generate"),
)
"""How their paths end; where one end is the end of another, the longer one comes first."""

_ENDS: Final[Sequence[tuple[re.Pattern[str], Api]]] = [
    (re.compile(f".*?{end}"), api) for end, api in APIS
]
_MODEL: Final = re.compile(r"/(?:model|\w*[mM]odels|serving-endpoints|deployments)/([^/:?]+)")
_ENDPOINT: Final = re.compile(r"/serving-endpoints/.+/invocations")
"""Of Databricks, where the body tells what is asked for."""

_TRITON: Final = re.compile(r"/v2/models/")
"""A server whose models have inputs of their own, which its stand-in reads."""


class Sent(Struct, frozen=True, kw_only=True):
    """vendor: the adapter's name; `compatible`: of `openai`, another than OpenAI; "": unknown.

    model: as the vendor knows it. headers: names are lower-case.
    """

    api: Api
    vendor: str
    path: str
    headers: Mapping[str, str]
    model: str
    body: Json
    raw: bytes


class Unreadable(Exception):
    """The body is not a JSON object."""


def api_of(path: str, raw: bytes) -> Api | None:
    """Return the API that a request belongs to. path: with or without a query."""
    plain = path.partition("?")[0]
    if _TRITON.search(plain):
        return None
    if _ENDPOINT.search(plain):
        if b'"messages":' in raw:
            return "openai-chat"
        return "openai-completions" if b'"prompt":' in raw else "openai-embeddings"
    return next((api for end, api in _ENDS if end.fullmatch(plain)), None)


def read(api: Api, vendor: str, path: str, headers: Mapping[str, str], raw: bytes) -> Sent:
    """Raises Unreadable."""
    try:
        body = decoded(raw)
    except ValueError as exc:
        raise Unreadable(f"the body is not JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise Unreadable("the body is not an object")
    fields = cast("Json", body)
    named = _MODEL.search(path)
    in_path = "" if named is None else unquote(named[1])
    return Sent(
        api=api,
        vendor=vendor,
        path=path,
        headers=headers,
        model=in_path or str(fields.get("model", "")),
        body=fields,
        raw=raw,
    )


def decoded(raw: bytes) -> object:
    """Decode JSON. Too large a float is infinite: it is JSON, and only its field may refuse it.

    An integer of more than 4300 digits raises ValueError, as at vendors' servers in Python.
    https://www.rfc-editor.org/rfc/rfc8259#section-6
    """
    try:
        return msgspec.json.decode(raw)
    except msgspec.ValidationError:  # of numbers alone; all else is a DecodeError
        return json.loads(raw, parse_constant=_no_number)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
