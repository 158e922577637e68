"""Decodes answers of Triton's raw-tensor models to events, for both endpoints of the server.

`infer` returns tensors with shapes, in JSON or as bytes; `generate` and `generate_stream` return
flat lists, and a scalar for a tensor with one item.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_inside
from strowger_gateway.adapters.framing import UnmarkedSSEParser
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.triton.open_inference_protocol import Output, decode_answer
from strowger_gateway.adapters.triton.tokens_answer import Beam, TokenAnswer
from strowger_gateway.schemas.events import Event, Logits
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.tensors import Tensor

_Item = TypeVar("_Item", int, float)


class TokensFrame(Struct, frozen=True, kw_only=True):
    """One event of the generate extension."""

    model_name: str = ""
    output_ids: int | list[int] | None = None
    sequence_length: int | list[int] | None = None
    sequence_index: int = 0
    cum_log_probs: float | list[float] | None = None
    output_log_probs: float | list[float] | None = None
    error: Raw = NULL


_read = msgspec.json.Decoder(TokensFrame).decode


class GenerateDecoder:
    """Events of `generate_stream`, or the one of `generate`."""

    def __init__(self, endpoint: Endpoint, request: TokenRequest) -> None:
        self._endpoint = endpoint
        self._answer = TokenAnswer(endpoint, request)

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        """See Decoder. A complete body of events may also come as one piece."""
        if data.startswith(b"data:"):
            parser = UnmarkedSSEParser(self._endpoint.name)
            frames = [*parser.feed(data), *parser.close()]
            return [one for _, frame in frames for one in self._events(frame)]
        return self._events(data)

    def close(self) -> Sequence[Event]:
        return self._answer.close()

    def _events(self, data: bytes) -> list[Event]:
        try:
            wire = _read(data)
            if wire.error != NULL:
                raise error_inside(self._endpoint, data)
            if wire.output_ids is None:
                raise self._answer.broken("the answer has no output_ids")
            beams = _beams(
                _list(wire.output_ids),
                _list(wire.sequence_length),
                _list(wire.output_log_probs) if self._answer.scored else [],
                _list(wire.cum_log_probs) if self._answer.scored else [],
                wire.sequence_index,
            )
        except (*UNREADABLE, ValueError) as exc:
            raise self._answer.unreadable(data) from exc
        events = list(self._answer.begin(wire.model_name))
        for beam in beams:
            events += self._answer.add(beam)
        return events


class InferDecoder:
    """The complete answer of `infer`."""

    def __init__(self, endpoint: Endpoint, request: TokenRequest) -> None:
        self._answer = TokenAnswer(endpoint, request)

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        """See Decoder."""
        try:
            wire = decode_answer(data)
            return [*self._answer.begin(wire.model), *self._events(wire.outputs)]
        except (*UNREADABLE, ValueError) as exc:
            raise self._answer.unreadable(data) from exc

    def close(self) -> Sequence[Event]:
        return self._answer.close()

    def _events(self, outputs: Mapping[str, Output]) -> Iterator[Event]:
        """Raises ValueError for tensors that do not fit together."""
        if "output_ids" not in outputs:
            raise self._answer.broken("the answer has no output_ids")
        if "context_logits" in outputs:
            for tensor in _matrices(outputs["context_logits"]):
                yield Logits(of="context", tensor=tensor)
        logits = outputs.get("generation_logits")
        matrices = [] if logits is None else _matrices(logits)
        beams = _beams(
            [int(one) for one in outputs["output_ids"].numbers()],
            [int(one) for one in _numbers(outputs, "sequence_length")],
            _numbers(outputs, "output_log_probs"),
            _numbers(outputs, "cum_log_probs"),
            0,
        )
        for place, beam in enumerate(beams):
            yield from self._answer.add(beam)
            if place < len(matrices) and self._answer.is_requested(beam.index):
                tensor = _top(matrices[place], len(beam.ids))
                yield Logits(of="generation", tensor=tensor, index=beam.index)


def _beams(
    ids: list[int],
    lengths: list[int],
    logprobs: Sequence[float],
    sums: Sequence[float],
    first: int,
) -> list[Beam]:
    """Return padded rows of equal length, one per beam.

    Raises ValueError if the lengths differ, and for an invalid id.
    """
    if ids and not -(2**31) <= min(ids) <= max(ids) < 2**31:
        raise ValueError("an id is not an INT32")
    count = len(lengths) or 1
    rows, scores = _rows(ids, count), _rows(list(logprobs), count)
    found: list[Beam] = []
    for place, row in enumerate(rows):
        kept = row[: lengths[place]] if lengths else row
        while kept and kept[-1] == PAD:
            kept = kept[:-1]
        found.append(
            Beam(
                index=first + place,
                ids=tuple(kept),
                logprobs=scores[place],
                cumulative=sums[place] if place < len(sums) else None,
            )
        )
    return found


PAD = -1
"""The padding of shorter beams."""


def _rows(flat: list[_Item], count: int) -> list[list[_Item]]:
    size, rest = divmod(len(flat), count)
    if rest:
        raise ValueError(f"{len(flat)} items are not {count} beams")
    return [flat[place * size : (place + 1) * size] for place in range(count)]


def _matrices(output: Output) -> list[Tensor]:
    """Return [..., T, V] as float32 matrices [T, V], in order."""
    if len(output.shape) < 2:
        raise ValueError(f"logits of shape {list(output.shape)}")
    shape = output.shape[-2:]
    data = output.float32()
    size = shape[0] * shape[1] * 4
    count = len(data) // size if size else 0
    if count * size != len(data):
        raise ValueError(f"{len(data)} bytes of logits, but their shape is {list(output.shape)}")
    return [
        Tensor(dtype="float32", shape=shape, data=data[place * size : (place + 1) * size])
        for place in range(count)
    ]


def _top(tensor: Tensor, rows: int) -> Tensor:
    """Return the first rows of a matrix; the rest is a shorter beam's padding."""
    height, width = tensor.shape
    kept = min(height, rows)
    return Tensor(dtype="float32", shape=(kept, width), data=tensor.data[: kept * width * 4])


def _numbers(outputs: Mapping[str, Output], name: str) -> Sequence[float]:
    return outputs[name].numbers() if name in outputs else ()


def _list(value: _Item | list[_Item] | None) -> list[_Item]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
