"""Resume an answer that another engine, or this one before a restart, has begun.

The tokens drawn so far are behind the prompt, as after a preemption: noise depends on the seed and
the number of drawn tokens only, so the next token is the one that would have followed. What the
tokens have said already is fed to a new answer stream and dropped, so that text held back,
reasoning and calls go on in the middle; so do the grammar and the penalties.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from strowger_gateway.local_engine.execution.jobs import Job
from strowger_gateway.local_engine.requests.request_reader import PreparedRequest
from strowger_gateway.local_engine.sampling.token_history import new_history
from strowger_gateway.schemas.errors import InvalidRequest


def check_resumable(request: PreparedRequest, drawn: list[int] | None) -> int:
    """Return the number of tokens that are replayed.

    Raises InvalidRequest for a request whose state is not in its tokens: several answers, beams,
    log probabilities, logits and drafts.
    """
    if not drawn:
        return 0
    several = len(request.prompts) * request.choices > 1 or request.beams is not None
    rows = request.logprobs or request.context or request.generation or request.prompt_logprobs
    if several or rows or request.draft:
        raise InvalidRequest("this answer cannot be resumed")
    if len(drawn) >= request.max_new:
        raise InvalidRequest("max_tokens: the answer that is resumed has all of them")
    return len(drawn)


def replay(job: Job, drawn: Sequence[int], vocabulary: int) -> Job:
    """Return the job as it is after drawing these tokens. Its sequence is changed."""
    sequence = job.sequence
    prompt = list(sequence.tokens)
    sequence.tokens.extend(drawn)
    if job.grammar is not None:
        for token in drawn:
            job.grammar.advance(token)
    history = new_history(job.params, [*prompt, *drawn], len(prompt), vocabulary=vocabulary)
    return replace(job, history=history)
