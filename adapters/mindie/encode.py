"""Requests as bodies of MindIE's `/infer_token` and of its `/generate`, which is TGI's.

The two call things the same under `parameters`. What this file is about is where they say
things differently from us: greedy decoding has a switch and no temperature of 0, the whole
nucleus is said by silence, and a request without a bound would be cut after 20 tokens.
"""

import math

import msgspec
from msgspec import UNSET

from schemas.errors import InvalidRequest
from schemas.requests import CompletionRequest, TokenRequest
from schemas.sampling import Sampling

Parameters = dict[str, object]

LONGEST = 2**31 - 1
"""The largest bound: the server stops at its own `maxIterTimes` before it."""

_AS_IT_IS = ("top_k", "do_sample", "seed", "repetition_penalty")
_encode = msgspec.json.Encoder().encode


def token_body(request: TokenRequest) -> bytes:
    """Details are asked for whatever the client wants: they hold usage and the finish reason."""
    parameters = _parameters(request.sampling)
    if request.priority is not UNSET:
        parameters["priority"] = request.priority
    if request.timeout_s is not UNSET:
        parameters["timeout"] = math.ceil(request.timeout_s)
    return _encode({"input_id": request.tokens, "stream": True, "parameters": parameters})


def text_body(request: CompletionRequest) -> bytes:
    """Raises InvalidRequest for tokens and for more prompts than one."""
    if len(request.prompts) != 1 or not isinstance(request.prompts[0], str):
        raise InvalidRequest("prompt: this backend accepts a single text prompt", param="prompt")
    parameters = _parameters(request.sampling)
    if request.sampling.stop:
        parameters["stop"] = request.sampling.stop
    return _encode({"inputs": request.prompts[0], "parameters": parameters})


def is_greedy(sampling: Sampling) -> bool:
    """No candidate but the best is wanted: a temperature or a nucleus of 0 leaves no other."""
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
    for name in _AS_IT_IS:
        value: object = getattr(sampling, name)
        if value is not UNSET and value is not None:
            parameters[name] = value
    if is_greedy(sampling):
        parameters["do_sample"] = False
    return parameters
