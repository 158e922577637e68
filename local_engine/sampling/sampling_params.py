"""Resolve and validate one request's sampling parameters from `schemas.Sampling`."""

from math import inf, isnan
from typing import TypeVar

from msgspec import Struct, UnsetType
from torch import Tensor

from strowger_gateway.local_engine.protocol.tensors import shaped
from strowger_gateway.local_engine.sampling.counter_rng import fold_seed
from strowger_gateway.schemas import tensors
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.sampling import Sampling

GREEDY_BELOW = 1e-5
_LARGEST = 3.4e38
_T = TypeVar("_T")


class TopPDecay(Struct, frozen=True, kw_only=True):
    """After each token, p becomes max(p * factor, floor); after token `reset_id`, its first value.

    factor: (0, 1]. floor: (0, 1]. reset_id: -1 is no token.
    """

    factor: float = 1.0
    floor: float = 1e-6
    reset_id: int = -1


class RowParams(Struct, frozen=True, kw_only=True):
    """One request's sampling with all values resolved. `resolve_params` checks the ranges.

    temperature: below 1e-5 is greedy. top_k: 0 is off. top_p: 1 is off, 0 is greedy.
    min_p: 0 is off. typical_p: 1 is off. decay: `None` leaves top_p alone.
    seed:        int64, from `counter_rng.fold_seed`. seeded: the client sent it.
    repetition_penalty: over prompt and output; 1 is off.
    presence_penalty, frequency_penalty: over the output; 0 is off.
    no_repeat_ngram_size: over prompt and output; 0 is off.
    min_tokens:  `end_ids` are banned until so many tokens are generated.
    bad_words:   token sequences; the last token is banned directly after the others.
    logit_bias:  (token id, addend). embedding_bias: float32 [V], added to the whole row.
    logprobs:    -1: none, 0: the chosen token's, n: also those of the n most likely.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    decay: TopPDecay | None = None
    seed: int = 0
    seeded: bool = False
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    min_tokens: int = 0
    end_ids: tuple[int, ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    logit_bias: tuple[tuple[int, float], ...] = ()
    embedding_bias: Tensor | None = None
    logprobs: int = -1


def resolve_params(
    sampling: Sampling,
    *,
    vocabulary: int,
    end_ids: tuple[int, ...],
    seed: int,
    bad_words: tuple[tuple[int, ...], ...] = (),
) -> RowParams:
    """Resolve the request's values and fill in the engine's defaults.

    vocabulary: V, the width of the logits. end_ids: the model's end tokens.
    seed: used if the client sent none; 0 … 2**64-1 or a negative int64.
    bad_words: the tokens of `sampling.bad_words`, which are strings.
    Defaults: temperature 1, no filter, no penalty, no log probabilities.
    Raises InvalidRequest naming the field.
    """
    temperature = _within("temperature", _or(sampling.temperature, 1.0), 0.0, _LARGEST)
    top_k = _or(sampling.top_k, None)
    given = _or(sampling.seed, None)
    words = (*_or(sampling.bad_word_ids, ()), *bad_words)
    _check_words(words, vocabulary)
    return RowParams(
        temperature=temperature if _or(sampling.do_sample, True) else 0.0,
        top_k=0 if top_k is None else max(int(_within("top_k", top_k, -1, inf)), 0),
        top_p=_within("top_p", _or(sampling.top_p, 1.0), 0.0, 1.0),
        min_p=_within("min_p", _or(sampling.min_p, 0.0), 0.0, 1.0),
        typical_p=_positive("typical_p", _or(sampling.typical_p, 1.0), 1.0),
        decay=_decay(sampling),
        seed=_seed(seed if given is None else given),
        seeded=given is not None,
        repetition_penalty=_positive(
            "repetition_penalty", _or(sampling.repetition_penalty, 1.0), _LARGEST
        ),
        presence_penalty=_finite("presence_penalty", _or(sampling.presence_penalty, 0.0)),
        frequency_penalty=_finite("frequency_penalty", _or(sampling.frequency_penalty, 0.0)),
        no_repeat_ngram_size=int(
            _within("no_repeat_ngram_size", _or(sampling.no_repeat_ngram_size, 0), 0, inf)
        ),
        min_tokens=int(_within("min_tokens", _or(sampling.min_tokens, 0), 0, inf)),
        end_ids=_ends(sampling, vocabulary, end_ids),
        bad_words=words,
        logit_bias=_logit_bias(_or(sampling.logit_bias, {}), vocabulary),
        embedding_bias=_embedding_bias(_or(sampling.embedding_bias, None), vocabulary),
        logprobs=_logprobs(sampling, vocabulary),
    )


def _or(value: _T | UnsetType, silent: _T) -> _T:
    return silent if isinstance(value, UnsetType) else value


def _within(name: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        span = f"{low} or more" if high >= _LARGEST else f"within {low} and {high}"
        raise InvalidRequest(f"{name}: {value} must be {span}", param=name)
    return value


def _positive(name: str, value: float, high: float) -> float:
    if not 0 < value <= high:
        span = "over 0" if high >= _LARGEST else f"over 0 and at most {high}"
        raise InvalidRequest(f"{name}: {value} must be {span}", param=name)
    return value


def _finite(name: str, value: float) -> float:
    return _within(name, value, -_LARGEST, _LARGEST)


def _seed(seed: int) -> int:
    try:
        return fold_seed(seed)
    except ValueError as exc:
        raise InvalidRequest(str(exc), param="seed") from exc


def _decay(sampling: Sampling) -> TopPDecay | None:
    factor = _positive("top_p_decay", _or(sampling.top_p_decay, 1.0), 1.0)
    floor = _positive("top_p_min", _or(sampling.top_p_min, 1e-6), 1.0)
    reset_id = _or(sampling.top_p_reset_id, -1)
    return None if factor == 1.0 else TopPDecay(factor=factor, floor=floor, reset_id=reset_id)


def _ends(sampling: Sampling, vocabulary: int, end_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return every single token that would end the answer."""
    own = _or(sampling.end_id, None)
    if own is not None:
        end_ids = () if own < 0 else (own,)
    if _or(sampling.ignore_eos, False):
        end_ids = ()
    words = tuple(word[0] for word in _or(sampling.stop_words, ()) if len(word) == 1)
    ends = (*end_ids, *_or(sampling.stop_token_ids, ()), *words)
    return tuple(dict.fromkeys(token for token in ends if 0 <= token < vocabulary))


def _check_words(words: tuple[tuple[int, ...], ...], vocabulary: int) -> None:
    for word in words:
        if not word:
            raise InvalidRequest("bad_words: a word is empty", param="bad_words")
        for token in word:
            _check_token("bad_words", token, vocabulary)


def _check_token(name: str, token: int, vocabulary: int) -> None:
    if not 0 <= token < vocabulary:
        raise InvalidRequest(
            f"{name}: token {token} must be within 0 and {vocabulary - 1}", param=name
        )


def _logit_bias(bias: dict[int, float], vocabulary: int) -> tuple[tuple[int, float], ...]:
    for token, value in bias.items():
        _check_token("logit_bias", token, vocabulary)
        if isnan(value) or value > _LARGEST:
            raise InvalidRequest(
                f"logit_bias: {value} for token {token} must be a number or -inf",
                param="logit_bias",
            )
    return tuple(bias.items())


def _embedding_bias(bias: tensors.Tensor | None, vocabulary: int) -> Tensor | None:
    if bias is None:
        return None
    return shaped(bias, "embedding_bias", (vocabulary,))


def _logprobs(sampling: Sampling, vocabulary: int) -> int:
    """Return -1 if not requested."""
    more = _or(sampling.top_logprobs, 0)
    if not _or(sampling.logprobs, more > 0):
        return -1
    return int(_within("top_logprobs", more, 0, vocabulary))
