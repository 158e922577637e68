"""An answer to a chat that consists of nothing is a failure: another backend may have one.

Vendors send such answers with status 200 and finish reason `stop` when something behind them has
failed. It is nothing if it has no text, reasoning, calls or anything else, and no tokens: the
vendor counts none, or sends neither a count nor a text. A model that ends its turn at once has used
a token, and its answer stays as it is. The circuit breaker does not count it, because a client's
request may cause it.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import UpstreamFailed
from strowger_gateway.schemas.events import Event, Finished, TextDelta, Usage
from strowger_gateway.schemas.requests import ChatRequest, Request


class _Attempt(Protocol):
    @property
    def current(self) -> "_Current": ...


class _Current(Protocol):
    @property
    def candidate(self) -> Candidate: ...
    @property
    def request(self) -> Request: ...


def check_held(attempt: _Attempt, events: Sequence[Event]) -> None:
    """Raise UpstreamFailed if these events, which are a whole stream, are an answer of nothing.

    events: without content but empty text and ends.
    """
    usage = [event for event in events if isinstance(event, Usage)]
    blank = any(isinstance(event, TextDelta) for event in events)
    finishes = [event for event in events if isinstance(event, Finished)]
    _check(attempt, finishes, usage[-1] if usage else None, blank=blank)


def check_answer(attempt: _Attempt, answer: Answer) -> None:
    """Raise UpstreamFailed if it is an answer of nothing."""
    if all(map(_is_empty, answer.choices)):
        blank = any(choice.text is not None for choice in answer.choices)
        finishes = [choice.finish for choice in answer.choices]
        _check(attempt, finishes, answer.usage, blank=blank)


def _check(
    attempt: _Attempt, finishes: Iterable[Finished | None], usage: Usage | None, *, blank: bool
) -> None:
    request = attempt.current.request
    if not isinstance(request, ChatRequest) or _begins_answer(request):
        return
    if not all(one is not None and _is_plain_end(one) for one in finishes):
        return
    tokens = None if usage is None else usage.completion_tokens
    if tokens or (tokens is None and blank):
        return
    error = UpstreamFailed(
        "answered with nothing: no text, no calls and no tokens",
        upstream=attempt.current.candidate.backend.upstream.name,
    )
    error.counts = False
    raise error


def _is_plain_end(finish: Finished) -> bool:
    return finish.reason == "stop" and finish.stop_match is None


def _is_empty(choice: Choice) -> bool:
    return not (
        choice.text
        or choice.thoughts
        or choice.refusal
        or choice.tool_calls
        or choice.opaque
        or choice.token_ids
        or choice.logprobs
        or choice.generation_logits is not None
    )


def _begins_answer(request: ChatRequest) -> bool:
    """Whether the conversation ends with the beginning of the answer, which may be all of it."""
    return request.begun or (bool(request.messages) and request.messages[-1].role == "assistant")
