"""Read requests for scores and classes."""

from typing import Final, TypeVar

from msgspec import UNSET, UnsetType

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.decoding import BodyReader, check_whole, model_name
from strowger_gateway.gateway.surfaces.pooling.wire import ALLOWED, ClassifyWire, ScoreWire, Texts
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.tasks.classify import ClassifyRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest

MAX_INPUTS: Final = 10_000
"""Pairs or texts of one request."""

SCORES: Final = BodyReader(ScoreWire, ALLOWED)
CLASSES: Final = BodyReader(ClassifyWire, ALLOWED)

_FIRST: Final = ("text_1", "data_1", "queries")
_SECOND: Final = ("text_2", "data_2", "documents", "items")
_OPTIONAL: Final = ("truncation",)
_PAIR: Final = 2

_Given = TypeVar("_Given")


def parse_score(inbound: Inbound) -> ScoreRequest:
    """`POST /v1/score`. Raises InvalidRequest."""
    wire, extra = SCORES.read(inbound.body)
    check_whole(wire.stream)
    first, queries = _side(wire, _FIRST)
    second, documents = _side(wire, _SECOND)
    if len(queries) not in (1, len(documents)):
        raise InvalidRequest(
            f"{first}: has {len(queries)} entries and {second} {len(documents)}; send one text, or "
            "as many as there are in the other",
            param=first,
        )
    return ScoreRequest(
        model=model_name(wire.model or inbound.model or None, ""),
        queries=queries,
        documents=documents,
        instruction=_sent(wire.instruction),
        truncation=_sent(wire.truncation),
        raw_scores=_sent(wire.raw_scores),
        user=_sent(wire.user),
        timeout_s=_sent(wire.timeout),
        extra=extra,
        optional=_OPTIONAL,
    )


def parse_classify(inbound: Inbound) -> ClassifyRequest:
    """`POST /v1/classify`, and TEI's `POST /predict`. Raises InvalidRequest."""
    wire, extra = CLASSES.read(inbound.body)
    check_whole(wire.stream)
    if wire.inputs is not None and wire.input is not None:
        raise InvalidRequest("inputs: send input or inputs, not both", param="inputs")
    tei = wire.inputs is not None
    if wire.inputs is not None:
        inputs, batch = _pairs(wire.inputs)
    elif wire.input is not None:
        given = (wire.input,) if isinstance(wire.input, str) else wire.input
        inputs = tuple([(one if isinstance(one, str) else one.text,) for one in given])
        batch = True
    else:
        raise InvalidRequest("input is required", param="input")
    _check_count(len(inputs), "inputs" if tei else "input")
    return ClassifyRequest(
        model=model_name(wire.model or inbound.model or None, ""),
        inputs=inputs,
        batch=batch,
        dialect="tei" if tei else "common",
        labels=_sent(wire.labels),
        truncation=_sent(wire.truncate if wire.truncation is None else wire.truncation),
        raw_scores=_sent(wire.raw_scores),
        user=_sent(wire.user),
        timeout_s=_sent(wire.timeout),
        extra=extra,
        optional=_OPTIONAL,
    )


def _side(wire: ScoreWire, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return one side of the pairs, with the name that the client has used for it."""
    given: list[tuple[str, Texts]] = []
    for name in names:
        texts: Texts | None = getattr(wire, name)
        if texts is not None:
            given.append((name, texts))
    if not given:
        raise InvalidRequest(f"{names[0]} is required", param=names[0])
    if len(given) > 1:
        name = given[1][0]
        raise InvalidRequest(f"{name}: send {given[0][0]} or {name}, not both", param=name)
    name, texts = given[0]
    several = (texts,) if isinstance(texts, str) else texts
    _check_count(len(several), name)
    return name, several


def _pairs(
    given: str | tuple[str | tuple[str, ...], ...],
) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """Return the inputs, and whether there may be several: a list of two texts is one pair.

    A list of one text is that text, as in TEI; a batch is a list of lists.
    """
    if isinstance(given, str):
        return ((given,),), False
    texts = [one for one in given if isinstance(one, str)]
    if len(texts) == len(given) and len(texts) in (1, _PAIR):
        return (tuple(texts),), False
    inputs: list[tuple[str, ...]] = []
    for place, one in enumerate(given):
        texts_of_one = (one,) if isinstance(one, str) else one
        if len(texts_of_one) not in (1, _PAIR):
            where = f"inputs[{place}]"
            raise InvalidRequest(f"{where} must be a text or a pair of texts", param=where)
        inputs.append(texts_of_one)
    return tuple(inputs), True


def _check_count(count: int, name: str) -> None:
    if not count:
        raise InvalidRequest(f"{name} must have at least one entry", param=name)
    if count > MAX_INPUTS:
        raise InvalidRequest(f"{name} must have at most {MAX_INPUTS} entries", param=name)


def _sent(value: _Given | None) -> _Given | UnsetType:
    return UNSET if value is None else value
