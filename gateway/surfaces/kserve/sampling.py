"""TensorRT-LLM's sampling terms, with its ranges, defaults and rules, and their translation.

https://nvidia.github.io/TensorRT-LLM/advanced/gpt-runtime.html#sampling-parameters: without topK
and topP its search is greedy, a topP of 0 is off, and beams are not normalised by their length.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tensors import Tensor

_T = TypeVar("_T")


class SamplingTerms(Struct, frozen=True, kw_only=True):
    """The client's sampling parameters, with TensorRT-LLM's meanings.

    top_k:          0 is off. top_p: 0 is off. With neither, the most likely token is taken.
    beam_width:     0 and 1 mean no beam search.
    early_stopping: 1, 0, or anything else for "only by length".
    end_id:         -1 means no end token. pad_id: pads beams of unequal length.
    sequences:      number of answers returned; with several beams, the best ones.
    sent:           the fields that the client sent.
    """

    sent: tuple[str, ...]
    max_tokens: int
    beam_width: int | UnsetType = UNSET
    sequences: int | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    top_p_min: float | UnsetType = UNSET
    top_p_decay: float | UnsetType = UNSET
    top_p_reset_id: int | UnsetType = UNSET
    min_p: float | UnsetType = UNSET
    length_penalty: float | UnsetType = UNSET
    early_stopping: int | UnsetType = UNSET
    repetition_penalty: float | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    min_tokens: int | UnsetType = UNSET
    no_repeat_ngram_size: int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    end_id: int | UnsetType = UNSET
    pad_id: int | UnsetType = UNSET
    embedding_bias: Tensor | UnsetType = UNSET
    bad_word_ids: tuple[tuple[int, ...], ...] | UnsetType = UNSET
    stop_words: tuple[tuple[int, ...], ...] | UnsetType = UNSET
    bad_words: tuple[str, ...] | UnsetType = UNSET
    stop: tuple[str, ...] | UnsetType = UNSET
    log_probs: bool = False

    @property
    def beams(self) -> int:
        """Number of beams; 1 means no beam search."""
        return max(_or(self.beam_width, 1), 1)

    @property
    def rows(self) -> int:
        """Number of answers returned to the client."""
        return _or(self.sequences, self.beams)


SILENT: Final = SamplingTerms(sent=(), max_tokens=1)
"""The terms of a client that sends none."""


class _Range(Struct, frozen=True, kw_only=True):
    """low, high: both inclusive; with `above`, low is exclusive."""

    low: float
    high: float = inf
    above: bool = False

    def holds(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        low = f"over {self.low:g}" if self.above else f"at least {self.low:g}"
        return low if self.high == inf else f"{low} and at most {self.high:g}"


LARGEST: Final = 3.4028234663852886e38
RANGES: Final[Mapping[str, _Range]] = {
    "max_tokens": _Range(low=1),
    "beam_width": _Range(low=0),
    "sequences": _Range(low=1),
    "temperature": _Range(low=0, high=LARGEST),
    "top_k": _Range(low=0),
    "top_p": _Range(low=0, high=1),
    "top_p_min": _Range(low=0, high=1, above=True),
    "top_p_decay": _Range(low=0, high=1, above=True),
    "top_p_reset_id": _Range(low=-1),
    "min_p": _Range(low=0, high=1),
    "length_penalty": _Range(low=-LARGEST, high=LARGEST),
    "repetition_penalty": _Range(low=0, high=LARGEST, above=True),
    "presence_penalty": _Range(low=-LARGEST, high=LARGEST),
    "frequency_penalty": _Range(low=-LARGEST, high=LARGEST),
    "min_tokens": _Range(low=0),
    "no_repeat_ngram_size": _Range(low=0),
    "seed": _Range(low=0, high=2**64 - 1),
    "end_id": _Range(low=-1),
    "pad_id": _Range(low=-1),
}


def check(terms: SamplingTerms, name_of: Callable[[str], str], *, max_choices: int) -> None:
    """Raise InvalidRequest that names what is out of range.

    name_of: returns the client's name of a term.
    """
    wrong = [
        field
        for field in terms.sent
        if field in RANGES and not RANGES[field].holds(getattr(terms, field))
    ]
    if wrong:
        raise _out_of_range(terms, next(field for field in RANGES if field in wrong), name_of)
    beams = terms.beams
    if beams > max_choices:
        name = name_of("beam_width")
        raise InvalidRequest(f"{name}: must be at most {max_choices}", param=name)
    most = beams if beams > 1 else max_choices
    if terms.rows > most:
        name = name_of("sequences")
        raise InvalidRequest(f"{name}: must be at most {most}", param=name)


def _out_of_range(
    terms: SamplingTerms, field: str, name_of: Callable[[str], str]
) -> InvalidRequest:
    name, value = name_of(field), getattr(terms, field)
    large = isinstance(value, int) and abs(value) >= 2**64  # may not fit into a float
    shown = "the number" if large else f"{value:g}"
    return InvalidRequest(f"{name}: {shown} must be {RANGES[field]}", param=name)


def sampling_of(terms: SamplingTerms) -> Sampling:
    """Translate the terms. What the client omits stays omitted unless defaults differ.

    TensorRT-LLM returns all beams by default; other backends do not, so `n` is set.
    """
    width, rows = terms.beams, terms.rows
    beams = width > 1
    top_p = terms.top_p or UNSET
    greedy = not beams and not terms.top_k and top_p is UNSET
    return Sampling(
        temperature=0.0 if greedy else terms.temperature,
        top_k=UNSET if greedy else _candidates(terms),
        top_p=top_p,
        top_p_min=UNSET if greedy else terms.top_p_min,
        top_p_decay=UNSET if greedy else terms.top_p_decay,
        top_p_reset_id=UNSET if greedy else terms.top_p_reset_id,
        min_p=UNSET if greedy else terms.min_p,
        max_tokens=terms.max_tokens,
        min_tokens=terms.min_tokens,
        stop=terms.stop,
        stop_words=terms.stop_words,
        bad_words=terms.bad_words,
        bad_word_ids=terms.bad_word_ids,
        end_id=terms.end_id,
        pad_id=terms.pad_id,
        seed=terms.seed,
        presence_penalty=terms.presence_penalty,
        frequency_penalty=terms.frequency_penalty,
        repetition_penalty=terms.repetition_penalty,
        no_repeat_ngram_size=terms.no_repeat_ngram_size,
        embedding_bias=terms.embedding_bias,
        logprobs=True if terms.log_probs else UNSET,
        n=rows if beams or rows > 1 else UNSET,
        beam_width=width if beams else UNSET,
        length_penalty=_or(terms.length_penalty, 0.0) if beams else UNSET,
        early_stopping=_early(terms.early_stopping) if beams else UNSET,
    )


def _candidates(terms: SamplingTerms) -> int | None | UnsetType:
    """Return `None` (whole vocabulary) for 0; `UNSET` if the client omits it."""
    return None if terms.top_k == 0 else terms.top_k


def _early(value: int | UnsetType) -> bool | Literal["never"] | UnsetType:
    if isinstance(value, UnsetType):
        return UNSET
    return "never" if value not in (0, 1) else value == 1


def _or(value: _T | UnsetType, silent: _T) -> _T:
    return silent if isinstance(value, UnsetType) else value
