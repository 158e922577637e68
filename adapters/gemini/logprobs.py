"""Log probabilities of Gemini's answers: the chosen tokens, and the most likely at each position.

https://ai.google.dev/api/generate-content#LogprobsResult
"""

from strowger_gateway.adapters.gemini.wire import Logprob, LogprobsResult
from strowger_gateway.schemas.events import TokenLogprob


def token_logprobs(found: LogprobsResult | None) -> tuple[TokenLogprob, ...]:
    if found is None:
        return ()
    tops = found.top_candidates
    return tuple(
        _logprob(one, tops[place].candidates if place < len(tops) else ())
        for place, one in enumerate(found.chosen_candidates)
    )


def _logprob(one: Logprob, top: tuple[Logprob, ...]) -> TokenLogprob:
    return TokenLogprob(
        token=one.token,
        logprob=one.log_probability,
        id=one.token_id,
        top=tuple(_logprob(other, ()) for other in top),
    )
