"""Read reranking requests of all vendors, each with the dialect of the answer."""

from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.decoding import BodyReader, check_whole, model_name
from strowger_gateway.gateway.surfaces.rerank.wire import ALLOWED, Document, RerankWire
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.tasks.rerank import RerankDialect, RerankRequest

MAX_DOCUMENTS: Final = 10_000
"""Of one request; Cohere's own limit. https://docs.cohere.com/docs/reranking-best-practices"""

READER: Final = BodyReader(RerankWire, ALLOWED)

_OPTIONAL: Final = ("max_chunks_per_doc", "max_tokens_per_doc", "truncation")
"""How much of a long document is read: without them, the backend decides."""

_VOYAGES: Final = (b"x-fern-sdk-name", b"voyageai")
"""A header of Voyage's TypeScript client."""

_Value = TypeVar("_Value")

_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


def parse_rerank(inbound: Inbound, *, second: bool) -> RerankRequest:
    """second: version 2 of Cohere's API. Raises InvalidRequest."""
    wire, extra = READER.read(inbound.body)
    check_whole(wire.stream)
    field = "documents" if wire.documents is not None else "texts"
    given = wire.documents if wire.documents is not None else wire.texts
    if given is None:
        raise InvalidRequest("documents is required", param="documents")
    if wire.documents is not None and wire.texts is not None:
        raise InvalidRequest("texts: send documents or texts, not both", param="texts")
    if not given:
        raise InvalidRequest(f"{field} must have at least one entry", param=field)
    if len(given) > MAX_DOCUMENTS:
        raise InvalidRequest(f"{field} must have at most {MAX_DOCUMENTS} entries", param=field)
    fields = wire.rank_fields or ()
    texts = tuple([_read(one, fields, field, place) for place, one in enumerate(given)])
    plain = all(isinstance(one, str) for one in given)
    dialect = _dialect(wire, inbound, second=second)
    return RerankRequest(
        model=model_name(wire.model or inbound.model or None, ""),
        query=_query(wire.query),
        documents=texts,
        originals=() if plain else tuple([_original(one) for one in given]),
        dialect=dialect,
        top_n=_top(wire),
        return_documents=_returned(wire, dialect),
        instruction=_first(wire.instruction, wire.instruct),
        max_chunks_per_doc=_first(wire.max_chunks_per_doc),
        max_tokens_per_doc=_first(wire.max_tokens_per_doc),
        truncation=_first(None if wire.truncation is UNSET else wire.truncation, wire.truncate),
        raw_scores=_first(wire.raw_scores),
        user=_first(wire.user),
        timeout_s=_first(wire.timeout),
        extra=extra,
        optional=_OPTIONAL,
    )


def dialect_of(body: bytes) -> RerankDialect:
    """Return the dialect of a body that cannot be read, as far as its errors differ."""
    return "voyage" if b'"truncation"' in body and b'"top_n"' not in body else "common"


def _dialect(wire: RerankWire, inbound: Inbound, *, second: bool) -> RerankDialect:
    """Voyage's Python client always sends `truncation`, and `top_k` instead of `top_n`.

    Its TypeScript client sends what it is given, and its name.
    """
    if second:
        return "cohere"
    if wire.texts is not None:
        return "tei"
    if wire.top_n is None and (wire.top_k is not UNSET or wire.truncation is not UNSET):
        return "voyage"
    if any(header == _VOYAGES for header in inbound.headers):
        return "voyage"
    return "common"


def _returned(wire: RerankWire, dialect: RerankDialect) -> bool:
    """Jina and vLLM return documents unless asked not to; the others only if asked to."""
    asked = wire.return_documents if wire.return_documents is not None else wire.return_text
    return dialect == "common" if asked is None else asked


def _top(wire: RerankWire) -> int | UnsetType:
    other = None if wire.top_k is UNSET else wire.top_k
    if wire.top_n is not None and other is not None and wire.top_n != other:
        raise InvalidRequest("top_k: is not top_n; send one of them", param="top_k")
    return (wire.top_n if wire.top_n is not None else other) or UNSET


def _query(query: Document) -> str:
    if isinstance(query, str):
        return query
    return _member(query, "text", "query")


def _read(one: Document, fields: tuple[str, ...], name: str, place: int) -> str:
    """Return the text of a document: of its fields, as Cohere advises, a line each."""
    if isinstance(one, str):
        return one
    where = f"{name}[{place}]"
    if not fields:
        return _member(one, "text", where)
    lines = [f"{field}: {_value(one[field])}" for field in fields if field in one]
    if not lines:
        raise InvalidRequest(f"{where}: has none of rank_fields", param=where)
    return "\n".join(lines)


def _member(fields: dict[str, Raw], name: str, where: str) -> str:
    raw = fields.get(name)
    if raw is None:
        raise InvalidRequest(
            f"{where} must be a string, or an object with the string `text`; name other fields of "
            "documents in rank_fields",
            param=where,
        )
    try:
        return _text(raw)
    except DecodeError as exc:
        raise InvalidRequest(f"{where}.{name} must be a string", param=f"{where}.{name}") from exc


def _value(raw: Raw) -> str:
    try:
        return _text(raw)
    except DecodeError:
        return bytes(raw).decode()


def _original(one: Document) -> Raw:
    return Raw(_encode({"text": one} if isinstance(one, str) else one))


def _first(*values: _Value | None) -> _Value | UnsetType:
    return next((value for value in values if value is not None), UNSET)
