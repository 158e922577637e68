"""How long a backend may be silent, think before its first content, and pause after it.

Vendors' clients wait 10 minutes for the next byte (https://github.com/openai/openai-python#timeouts,
https://github.com/anthropics/anthropic-sdk-python#timeouts), codex 5 minutes for the next event
(`stream_idle_timeout_ms`, https://github.com/openai/codex). A model that reasons may show nothing
for minutes, while its vendor sends pings, or nothing at all.
"""

from typing import Final

from msgspec import UNSET, Struct

from strowger_gateway.gateway.config.schema.connection import STREAM_S, WHOLE_S, Timeouts
from strowger_gateway.schemas.requests import CompletionRequest, GenerateRequest


class Patience(Struct, frozen=True, kw_only=True, gc=False):
    """Limits of one stream, in seconds.

    silence_s: without any byte before the first content, counted from the request.
    first_s:   until the first content, whatever else arrives.
    between_s: from one content to the next, whatever else arrives.
    later_silence_s: without any byte after the first content.
    whole_s:   until an answer that is not streamed begins: the longest that it may take.
    short_s:   the same for an answer of few tokens.
    """

    silence_s: float
    first_s: float
    between_s: float
    later_silence_s: float
    whole_s: float
    short_s: float

    @property
    def begin_s(self) -> float:
        """Until the answer begins, in whatever way."""
        return min(self.silence_s, self.first_s)


class FirstByte(Struct, frozen=True, gc=False):
    """Limit for the begin of an answer that is not streamed: nothing arrives while it is written.

    base_s: for an answer without a token. most_s: the limit whatever the number of tokens.
    """

    base_s: float
    most_s: float

    def within_s(self, request: GenerateRequest) -> float:
        """Return the seconds for the tokens that the request allows, if it limits them.

        Many servers compute several answers one after the other.
        """
        sampling = request.sampling
        tokens = sampling.max_tokens
        if type(tokens) is not int:
            return self.most_s
        if sampling.n is not UNSET or sampling.best_of is not UNSET:
            tokens *= max(sampling.n or 1, sampling.best_of or 1)
        if type(request) is CompletionRequest:
            tokens *= len(request.prompts)
        if tokens > self.most_s / TOKEN_S:  # also numbers that no float can be
            return self.most_s
        return min(self.most_s, self.base_s + TOKEN_S * tokens)


TOKEN_S: Final = 0.5
"""Seconds per token of a slow backend: a large model on a processor."""

USUAL: Final = Patience(
    silence_s=90.0,
    first_s=300.0,
    between_s=60.0,
    later_silence_s=90.0,
    whole_s=480.0,
    short_s=120.0,
)
REASONING: Final = Patience(
    silence_s=300.0,
    first_s=600.0,
    between_s=600.0,
    later_silence_s=300.0,
    whole_s=540.0,
    short_s=300.0,
)
"""For models that reason, by the table of models or by `capabilities`.

The usual silence is shorter than the 100 s that Cloudflare waits for a first byte, and leaves time
for the next backend within as many. `whole_s` leaves a part of the 600 s of `deadline_s` for it.
"""


def patience_of(timeouts: Timeouts, default: Patience) -> Patience:
    """Return the operator's limits, and `default` where there are none.

    An operator who allows a model more time for content without a limit for silence allows as much
    silence: many servers send nothing before the first content.
    """
    first, between, silence = timeouts.first_token_s, timeouts.between_tokens_s, timeouts.silence_s
    return Patience(
        silence_s=max(default.silence_s, first or 0.0) if silence is None else silence,
        first_s=default.first_s if first is None else first,
        between_s=default.between_s if between is None else between,
        later_silence_s=max(default.later_silence_s, between or 0.0)
        if silence is None
        else silence,
        whole_s=default.whole_s,
        short_s=default.short_s,
    )


def first_byte_of(timeouts: Timeouts, default: Patience) -> FirstByte:
    """Return the operator's limit for answers that are not streamed, or the one of the model.

    A total_s of the operator is the limit as well: it may be there because the backend is slow.
    """
    set_s = timeouts.total_s if timeouts.first_byte_s is None else timeouts.first_byte_s
    if set_s is not None:
        return FirstByte(set_s, set_s)
    base_s = max(default.short_s, patience_of(timeouts, default).silence_s)
    return FirstByte(base_s, max(base_s, default.whole_s))


def total_of(timeouts: Timeouts) -> tuple[float, float]:
    """Return the seconds for a whole answer, and for a stream."""
    total_s = timeouts.total_s
    return (WHOLE_S, STREAM_S) if total_s is None else (total_s, total_s)
