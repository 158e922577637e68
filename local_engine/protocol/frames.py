"""Messages between a worker and an engine process: frames on a Unix socket or TCP.

A frame is its length (four bytes, big-endian) and a msgpack map. No torch here: both sides
import this module.
"""

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from strowger_gateway.local_engine.protocol.stats import Machine, Stats
from strowger_gateway.local_engine.text.text_length import Reach
from strowger_gateway.schemas.errors import (
    CallerError,
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    ModelNotFound,
    Throttled,
    Unavailable,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamLost,
)
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest

_T = TypeVar("_T")
HEAD_BYTES = 4
MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Request bodies are limited to far less; a longer frame is a protocol error. On TCP, an engine
accepts less (`Ready.max_request`)."""

PROTOCOL = 1
"""The version of these messages. An engine on another machine may be of another release."""


class Submit(Struct, frozen=True, kw_only=True, tag="submit", omit_defaults=True):
    """Generate. id: chosen by the worker, unique on its connection. request: JSON.

    tenant, team: the API key and its team. Keys share no pages and take turns.
    resumable: batches say which tokens were drawn. drawn: those that the answer has already; its
    events are those after them.
    traceparent: of the attempt's span, if it is exported; "" otherwise. The last batch of the
    answer then has `phases`. https://www.w3.org/TR/trace-context/#traceparent-header
    """

    id: int
    request: bytes
    model: str
    request_id: str
    tenant: str
    resumable: bool = False
    drawn: tuple[int, ...] = ()
    traceparent: str = ""
    team: str = ""


class Embed(Struct, frozen=True, kw_only=True, tag="embed", omit_defaults=True):
    """Turn inputs into vectors. id, request, tenant and team: as in Submit."""

    id: int
    request: bytes
    model: str
    tenant: str = ""
    team: str = ""


class Cancel(Struct, frozen=True, kw_only=True, tag="cancel"):
    """The client of `id` is gone. Unknown and finished ids are ignored."""

    id: int


class StatsRequest(Struct, frozen=True, kw_only=True, tag="stats_request"):
    """Send `StatsReply`."""


class Ready(Struct, frozen=True, kw_only=True, tag="ready"):
    """The first frame from an engine: it is warmed up and serves these models.

    reaches: the longest prompt of each model. weights: the identity of each generating model, see
    `protocol.identity`. protocol, release: of the engine. max_request: bytes of the longest frame
    that it accepts.
    """

    models: tuple[str, ...]
    reaches: dict[str, Reach] = {}
    weights: dict[str, str] = {}
    protocol: int = PROTOCOL
    release: str = ""
    max_request: int = MAX_FRAME_BYTES


class ConnectionRefusal(Struct, frozen=True, kw_only=True, tag="refused"):
    """Sent in place of `Ready`, before the engine closes. why: the end of a sentence."""

    why: str


class Leaving(Struct, frozen=True, kw_only=True, tag="leaving"):
    """The engine is about to end: it finishes its requests and wants no further ones."""


class Phases(Struct, frozen=True, kw_only=True):
    """Durations of an answer's phases in seconds, by the engine's clock.

    queue_s: from its arrival to the first step that computes it. prefill_s: until its first token.
    decode_s: until its last. Of several choices: of the first to begin and the last to end.
    """

    queue_s: float
    prefill_s: float
    decode_s: float


class Batch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of one request. last: its answer is complete.

    drawn: the tokens that were drawn for the events, if the request is resumable. phases:
    with the last one, if Submit had a traceparent.
    """

    id: int
    events: tuple[Event, ...]
    last: bool = False
    drawn: tuple[int, ...] = ()
    phases: Phases | None = None


class Deltas(Struct, frozen=True, kw_only=True, tag="deltas"):
    """The events of one step for all requests of a connection."""

    batches: tuple[Batch, ...]


class Vectors(Struct, frozen=True, kw_only=True, tag="vectors"):
    """A piece of an embedding answer; pieces arrive in order.

    values: little-endian float32, vector after vector. width: numbers of each.
    tokens: of all inputs. last: the answer is complete.
    """

    id: int
    values: bytes
    width: int
    tokens: int
    last: bool = False


class Failed(Struct, frozen=True, kw_only=True, tag="failed"):
    """The request failed. kind: a name in KINDS; any other name means that the engine failed."""

    id: int
    kind: str
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None


class StatsReply(Struct, frozen=True, kw_only=True, tag="stats_reply"):
    """The device and process of the engine, and its counters by model."""

    machine: Machine
    stats: dict[str, Stats]


ToEngine = Submit | Embed | Cancel | StatsRequest
ToWorker = Ready | ConnectionRefusal | Leaving | Deltas | Vectors | Failed | StatsReply

KINDS: dict[str, type[GatewayError]] = {
    kind.__name__: kind
    for kind in (
        GatewayError,
        CallerError,
        InvalidRequest,
        ModelNotFound,
        Throttled,
        Unavailable,
        DeadlineExceeded,
        UpstreamBusy,
        UpstreamFailed,
        UpstreamBroken,
        UpstreamLost,
    )
}

FAILURE = UpstreamFailed.__name__

SLOW_WORKER = "slow_worker"
"""The code of a failure that the gateway itself has caused: it did not read the answers in time."""

_encoder = msgspec.msgpack.Encoder()
_request: msgspec.json.Decoder[GenerateRequest] = msgspec.json.Decoder(GenerateRequest)
_inputs: msgspec.json.Decoder[EmbeddingsRequest] = msgspec.json.Decoder(EmbeddingsRequest)
_encode_json = msgspec.json.Encoder().encode


class BrokenFrame(ValueError):
    """The other side sent bytes that are not a frame."""


def frame(message: ToEngine | ToWorker) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def encode_request(request: GenerateRequest | EmbeddingsRequest) -> bytes:
    """Encode the values without the client's own JSON, which the engine does not read."""
    if isinstance(request, ChatRequest) and request.original is not None:
        request = msgspec.structs.replace(request, original=None)
    return _encode_json(request)


def decode_request(body: bytes) -> GenerateRequest:
    """Raises InvalidRequest."""
    return _decoded(_request, body)


def decode_inputs(body: bytes) -> EmbeddingsRequest:
    """Raises InvalidRequest."""
    return _decoded(_inputs, body)


def _decoded(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as exc:
        raise InvalidRequest(f"the engine cannot read this request: {exc}") from exc


def failed(id: int, error: GatewayError) -> Failed:
    """Encode an error. The upstream's name at the start of a message is removed."""
    message = error.message if not isinstance(error, UpstreamError) else str(error)
    if isinstance(error, UpstreamError):
        message = message.removeprefix(f"{error.upstream}: ")
    return Failed(
        id=id,
        kind=next(one.__name__ for one in type(error).__mro__ if one.__name__ in KINDS),
        message=message,
        param=error.param,
        code=error.code,
        retry_after=error.retry_after,
    )


def raised(failure: Failed, upstream: str) -> GatewayError:
    """Decode an error, now with the name of the gateway's provider."""
    kind = KINDS.get(failure.kind, UpstreamFailed)
    if issubclass(kind, UpstreamError):
        return kind(
            failure.message,
            upstream=upstream,
            code=failure.code,
            retry_after=failure.retry_after,
        )
    return kind(
        failure.message, param=failure.param, code=failure.code, retry_after=failure.retry_after
    )


class FrameReader:
    """Splits a byte stream into frames.

    finished: frames that are complete. announced: bytes of the next one as far as it has begun,
    at least 1, or 0 if it has not.
    """

    def __init__(self, most: int = MAX_FRAME_BYTES) -> None:
        """most: bytes of a frame without its length."""
        self._most = most
        self._rest = bytearray()
        self.finished = 0

    @property
    def announced(self) -> int:
        rest = self._rest
        if len(rest) < HEAD_BYTES:
            return len(rest)
        return HEAD_BYTES + int.from_bytes(rest[:HEAD_BYTES], "big")

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bodies of complete frames. Raises BrokenFrame for an impossible length."""
        rest = self._rest
        rest += data
        at = 0
        while len(rest) - at >= HEAD_BYTES:
            length = int.from_bytes(rest[at : at + HEAD_BYTES], "big")
            if length > self._most:
                raise BrokenFrame(
                    f"a frame has {length} bytes, more than the limit of {self._most}"
                )
            if len(rest) - at - HEAD_BYTES < length:
                break
            at += HEAD_BYTES
            self.finished += 1
            yield bytes(rest[at : at + length])
            at += length
        del rest[:at]
