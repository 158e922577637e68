"""Sampling parameters of TensorRT-LLM, the same for its text models and its raw-tensor models.

Decoding is greedy, whatever the temperature, if neither `top_k` nor `top_p` is given, so a request
to sample names the whole vocabulary. `top_k` 1 is greedy in every version, a temperature of 0 only
in recent ones; and an end token of -1 is never generated, which implements `ignore_eos`.
https://nvidia.github.io/TensorRT-LLM/advanced/gpt-runtime.html#sampling-parameters
"""

from collections.abc import Mapping

from msgspec import UNSET, UnsetType

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import CompletionRequest, TokenRequest
from strowger_gateway.schemas.sampling import Sampling

UINT64 = 1 << 64
INT64 = 1 << 63
CUT_CANDIDATES = frozenset({"temperature", "top_k", "top_p", "top_p_decay", "top_p_min"})
"""Fields without effect on greedy decoding."""

Number = bool | int | float


def numbers(sampling: Sampling, names: Mapping[str, str]) -> dict[str, Number]:
    """Return the fields in `names` that were sent, by our name, as numbers that the server accepts.

    Raises InvalidRequest for `early_stopping: never`, which the server does not support.
    """
    if sampling.early_stopping == "never":
        raise InvalidRequest(
            "early_stopping: TensorRT-LLM does not support 'never'; send true or false",
            param="early_stopping",
        )
    greedy = sampling.temperature == 0 or sampling.do_sample is False
    found: dict[str, Number] = {}
    for field in names:
        value = getattr(sampling, field)
        if isinstance(value, int | float) and not (greedy and field in CUT_CANDIDATES):
            found[field] = value
    if greedy:
        found["top_k"] = 1
    elif _draws(sampling) and not {"top_k", "top_p"} & found.keys():
        found["top_p"] = 1.0
    if sampling.ignore_eos is True:
        found["end_id"] = -1
    if "seed" in found:
        found["seed"] = int(found["seed"]) % UINT64
    return found


def _draws(sampling: Sampling) -> bool:
    """Return whether the client requests sampling. Beams do not; the default is the server's."""
    samples = sampling.do_sample is True or sampling.temperature is not UNSET
    return samples and beams(sampling) == 1


def token_limit(request: CompletionRequest | TokenRequest) -> int:
    """Return the token limit. Raises InvalidRequest without one: the server requires it."""
    limit = request.sampling.max_tokens
    if limit is None or isinstance(limit, UnsetType):
        raise InvalidRequest(
            "max_tokens: is required by this backend; send it, or set it in the model's defaults",
            param="max_tokens",
        )
    return limit


def answers(sampling: Sampling) -> int:
    return sampling.n or 1


def beams(sampling: Sampling) -> int:
    return 1 if sampling.beam_width is UNSET else sampling.beam_width


def returned(sampling: Sampling) -> int | None:
    """Return `num_return_sequences`, `None` if the server's default fits.

    With beams the server's default is all of them; ours is one.
    """
    count = answers(sampling)
    return count if count > 1 or beams(sampling) > 1 else None


def stop_words(sampling: Sampling) -> tuple[tuple[int, ...], ...]:
    """Return the token sequences that end an answer; a stop token is a sequence of one."""
    single = tuple((token,) for token in sampling.stop_token_ids or ())
    return (*(sampling.stop_words or ()), *single)


def end_token(sampling: Sampling) -> int | None:
    """Return the token that ends an answer, if the client sent one."""
    if isinstance(sampling.end_id, UnsetType) or sampling.end_id < 0:
        return None
    return None if sampling.ignore_eos is True else sampling.end_id
