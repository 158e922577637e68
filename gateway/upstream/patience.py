"""How long a stream of a backend may be silent, think before its first content, and pause after it.

Vendors' clients wait 10 minutes for the next byte (https://github.com/openai/openai-python#timeouts,
https://github.com/anthropics/anthropic-sdk-python#timeouts), codex 5 minutes for the next event
(`stream_idle_timeout_ms`, https://github.com/openai/codex). A model that reasons may show nothing
for minutes, while its vendor sends pings, or nothing at all.
"""

from typing import Final

from msgspec import Struct

from gateway.config.schema.connection import STREAM_S, WHOLE_S, Timeouts


class Patience(Struct, frozen=True, kw_only=True, gc=False):
    """Limits of one stream, in seconds.

    silence_s: without any byte before the first content, counted from the request.
    first_s:   until the first content, whatever else arrives.
    between_s: from one content to the next, whatever else arrives.
    later_silence_s: without any byte after the first content.
    """

    silence_s: float
    first_s: float
    between_s: float
    later_silence_s: float

    @property
    def begin_s(self) -> float:
        """Until the answer begins, in whatever way."""
        return min(self.silence_s, self.first_s)


USUAL: Final = Patience(silence_s=120.0, first_s=300.0, between_s=60.0, later_silence_s=120.0)
REASONING: Final = Patience(silence_s=300.0, first_s=600.0, between_s=600.0, later_silence_s=300.0)
"""For models that reason, by the table of models or by `capabilities`."""


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
    )


def total_of(timeouts: Timeouts) -> tuple[float, float]:
    """Return the seconds for a whole answer, and for a stream."""
    total_s = timeouts.total_s
    return (WHOLE_S, STREAM_S) if total_s is None else (total_s, total_s)
