"""Sampling in TensorRT-LLM's terms, the same for its text models and its raw-tensor models.

Its search is greedy, whatever the temperature, where neither `top_k` nor `top_p` is given: so a
request to draw names the whole vocabulary. `top_k` 1 is greedy in every version, a temperature of
0 only in recent ones; and an end token of -1 never comes, which is our `ignore_eos`.
https://nvidia.github.io/TensorRT-LLM/advanced/gpt-runtime.html#sampling-parameters
"""

from collections.abc import Mapping

from msgspec import UNSET, UnsetType

from schemas.errors import InvalidRequest
from schemas.requests import CompletionRequest, TokenRequest
from schemas.sampling import Sampling

UINT64 = 1 << 64
INT64 = 1 << 63
CUT_CANDIDATES = frozenset({"temperature", "top_k", "top_p", "top_p_decay", "top_p_min"})
"""What changes nothing where sampling is greedy."""

Number = bool | int | float


def numbers(sampling: Sampling, names: Mapping[str, str]) -> dict[str, Number]:
    """The fields in `names` that were sent, by our name, as numbers that the server takes.

    Raises InvalidRequest for `early_stopping: never`, which the server has no form for.
    """
    if sampling.early_stopping == "never":
        raise InvalidRequest(
            "early_stopping: 'never' has no form in TensorRT-LLM; send true or false",
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
    """The client asks for chance: beams have none, and who is silent gets the server's default."""
    asked = sampling.do_sample is True or sampling.temperature is not UNSET
    return asked and beams(sampling) == 1


def bound(request: CompletionRequest | TokenRequest) -> int:
    """The most tokens to generate. Raises InvalidRequest without one: the server requires it."""
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
    """`num_return_sequences`: `None` where the server's default is what is wanted.

    With beams that default is all of them; ours is one.
    """
    count = answers(sampling)
    return count if count > 1 or beams(sampling) > 1 else None


def stop_words(sampling: Sampling) -> tuple[tuple[int, ...], ...]:
    """Sequences that end an answer; a single stop token is a word of one."""
    single = tuple((token,) for token in sampling.stop_token_ids or ())
    return (*(sampling.stop_words or ()), *single)


def end_token(sampling: Sampling) -> int | None:
    """The token that ends an answer, where the client named one."""
    if isinstance(sampling.end_id, UnsetType) or sampling.end_id < 0:
        return None
    return None if sampling.ignore_eos is True else sampling.end_id
