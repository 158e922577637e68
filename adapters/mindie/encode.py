"""Encodes requests for MindIE's `/infer_token` and its TGI-compatible `/generate`.

Both use the same names under `parameters`. Differences from our schema: greedy decoding is a switch
instead of a temperature of 0, a top_p of 1 must be omitted, and a request without a token limit
would be cut after 20 tokens.
"""

import math

import msgspec
from msgspec import UNSET

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import CompletionRequest, TokenRequest
from strowger_gateway.schemas.sampling import Sampling

Parameters = dict[str, object]

LONGEST = 2**31 - 1
"""The largest limit; the server stops earlier, at its own `maxIterTimes`."""

_SAME_NAME = ("top_k", "do_sample", "seed", "repetition_penalty")
_encode = msgspec.json.Encoder().encode


def token_body(request: TokenRequest) -> bytes:
    """Encode tokens. Always request details, because they contain usage and the finish reason."""
    parameters = _parameters(request.sampling)
    if request.priority is not UNSET:
        parameters["priority"] = request.priority
    if request.timeout_s is not UNSET:
        parameters["timeout"] = math.ceil(request.timeout_s)
    return _encode({"input_id": request.tokens, "stream": True, "parameters": parameters})


def text_body(request: CompletionRequest) -> bytes:
    """Raises InvalidRequest for tokens and for more than one prompt."""
    if len(request.prompts) != 1 or not isinstance(request.prompts[0], str):
        raise InvalidRequest("prompt: this backend accepts a single text prompt", param="prompt")
    parameters = _parameters(request.sampling)
    if request.sampling.stop:
        parameters["stop"] = request.sampling.stop
    return _encode({"inputs": request.prompts[0], "parameters": parameters})


def is_greedy(sampling: Sampling) -> bool:
    """Return whether only the best candidate is wanted: also a temperature or top_p of 0."""
    return sampling.do_sample is False or sampling.temperature == 0 or sampling.top_p == 0


def _parameters(sampling: Sampling) -> Parameters:
    parameters: Parameters = {
        "details": True,
        "max_new_tokens": LONGEST if sampling.max_tokens in (UNSET, None) else sampling.max_tokens,
    }
    if sampling.temperature is not UNSET and sampling.temperature != 0:
        parameters["temperature"] = sampling.temperature
    if sampling.top_p is not UNSET and sampling.top_p not in (0, 1):
        parameters["top_p"] = sampling.top_p
    for name in _SAME_NAME:
        value: object = getattr(sampling, name)
        if value is not UNSET and value is not None:
            parameters[name] = value
    if is_greedy(sampling):
        parameters["do_sample"] = False
    return parameters
