"""`embedContent` and `batchEmbedContents`: texts to embed, and their vectors.

https://ai.google.dev/api/embeddings
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.gateway.surfaces.base import Headers, Inbound
from strowger_gateway.gateway.surfaces.decoding import (
    UNREADABLE,
    invalid_request,
    is_null,
    model_name,
)
from strowger_gateway.gateway.surfaces.gemini.parts import DIALECT, part_of, read_parts
from strowger_gateway.gateway.surfaces.gemini.proto import ProtoReader, as_list, object_fields
from strowger_gateway.gateway.surfaces.gemini.usage import usage_metadata
from strowger_gateway.gateway.surfaces.gemini.wire import (
    ALLOWED,
    BatchEmbedContentsWire,
    ContentWire,
    EmbedContentWire,
)
from strowger_gateway.gateway.surfaces.marked_objects import Marks
from strowger_gateway.gateway.surfaces.openai.bodies import as_numbers
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import TextPart
from strowger_gateway.schemas.requests import EmbeddingsRequest

MAX_INPUTS: Final = 10_000
OWN: Final = ("taskType", "title")
"""Google's own fields, which no other vendor has."""

_SINGLE: Final = ProtoReader(EmbedContentWire, ALLOWED, lax=True)
_BATCH: Final = ProtoReader(BatchEmbedContentsWire, ALLOWED, lists={"requests"})
_CONTENTS: Final = ProtoReader(ContentWire, ALLOWED, lists={"parts"})
_number: Final[msgspec.json.Decoder[int | str]] = msgspec.json.Decoder(int | str)
_raws: Final = msgspec.json.Decoder(list[Raw])


class _Input(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    dimensions: int | UnsetType
    extra: Marks


def parse_embed(inbound: Inbound) -> EmbeddingsRequest:
    """`embedContent`. Raises InvalidRequest."""
    wire, more = _SINGLE.body(inbound.body)
    return _request((_input(wire, more, ""),), inbound, batch=False)


def parse_batch(inbound: Inbound) -> EmbeddingsRequest:
    """`batchEmbedContents`. Raises InvalidRequest, also if its entries differ in their settings."""
    wire, more = _BATCH.body(inbound.body)
    try:
        raws = _raws.decode(as_list(wire.requests))
    except UNREADABLE as exc:
        raise invalid_request(exc, "requests", ALLOWED) from exc
    if not 1 <= len(raws) <= MAX_INPUTS:
        told = f"requests must have 1 to {MAX_INPUTS} entries"
        raise InvalidRequest(told, param="requests")
    found: list[_Input] = []
    for at, raw in enumerate(raws):
        where = f"requests[{at}]"
        one, others = _SINGLE.read(raw, where)
        found.append(_input(one, {**more, **others}, f"{where}."))
        for name, same in (
            ("outputDimensionality", found[-1].dimensions == found[0].dimensions),
            *((name, _equal(found[-1], found[0], name)) for name in OWN),
        ):
            if not same:
                field = f"{where}.{name}"
                told = f"{field} differs from requests[0].{name}; send the others in another batch"
                raise InvalidRequest(told, param=field)
    return _request(tuple(found), inbound, batch=True)


def _equal(one: _Input, other: _Input, name: str) -> bool:
    return one.extra.get(name) == other.extra.get(name)


def _input(wire: EmbedContentWire, more: Marks, where: str) -> _Input:
    extra = dict(more)
    dimensions = wire.output_dimensionality
    fields = {"taskType": wire.task_type, "title": wire.title}
    config = wire.embed_content_config
    if isinstance(config, Raw) and not is_null(config):
        inside = object_fields(config, f"{where}embedContentConfig")
        size = inside.pop("outputDimensionality", None)
        if size is not None and dimensions is None:
            dimensions = _size(size, f"{where}embedContentConfig.outputDimensionality")
        extra |= inside
    for name, raw in fields.items():
        if isinstance(raw, Raw) and not is_null(raw):
            extra[name] = raw
    return _Input(
        text=_text(wire.content, f"{where}content"),
        dimensions=UNSET if dimensions is None else dimensions,
        extra=extra,
    )


def _size(raw: Raw, where: str) -> int:
    try:
        found = int(_number.decode(raw))
    except (*UNREADABLE, ValueError):
        found = 0
    if found < 1:
        raise InvalidRequest(f"{where} must be an integer of 1 or more", param=where)
    return found


def _text(raw: Raw, where: str) -> str:
    if bytes(memoryview(raw)[:1]) in b'"[':
        content = ContentWire(parts=raw)
    else:
        content, _ = _CONTENTS.read(raw, where)
    texts: list[str] = []
    for at, (wire, more) in enumerate(read_parts(content.parts, f"{where}.parts")):
        path = f"{where}.parts[{at}]"
        part = part_of(wire, more, path)
        if not isinstance(part, TextPart):
            raise InvalidRequest(f"{path} must be a text", param=path)
        texts.append(part.text)
    if not texts:
        raise InvalidRequest(f"{where}.parts is required", param=f"{where}.parts")
    return "\n".join(texts)


def _request(inputs: tuple[_Input, ...], inbound: Inbound, *, batch: bool) -> EmbeddingsRequest:
    return EmbeddingsRequest(
        model=model_name(None, inbound.model),
        inputs=tuple([one.text for one in inputs]),
        batch=batch,
        dimensions=inputs[0].dimensions,
        extra=inputs[0].extra,
        optional=OWN,
        dialect=DIALECT,
    )


class EmbedContentRenderer:
    """Render vectors as numbers, whatever the backend sent."""

    def __init__(self, request: EmbeddingsRequest) -> None:
        self._batch = request.batch

    def headers(self, backend: str) -> Headers:
        return []

    def embeddings(self, embeddings: Embeddings) -> bytes:
        """Raise UpstreamBroken if a backend's base64 is not float32 values."""
        # One by one, so that a large answer does not hold the interpreter.
        vectors = [b'{"values":%b}' % encode(as_numbers(one)) for one in embeddings.vectors]
        counts = usage_metadata(embeddings.usage)
        usage = b"" if counts == b"{}" else b',"usageMetadata":' + counts
        if self._batch:
            return b'{"embeddings":[%b]%b}' % (b",".join(vectors), usage)
        return b'{"embedding":%b%b}' % (vectors[0], usage)
