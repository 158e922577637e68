"""Jobs for the engine loop, and the deltas that it returns step by step."""

from typing import Final, Literal

from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.execution.step_sampler import SampledToken
from strowger_gateway.local_engine.guided.grammar import Grammar
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import History
from strowger_gateway.local_engine.scheduling.request_metrics import Timing
from strowger_gateway.local_engine.scheduling.sequence import Finish, Sequence

Outcome = Finish | Literal["expired", "failed"]

NO_NUMBERS: Final = (
    "the model's logits for this answer are not numbers: values overflow, or weights are broken; "
    "where engine.dtype is float16, set bfloat16 or float32"
)
"""The reason of an answer that failed for its logits."""


class Beams(Struct, frozen=True, kw_only=True):
    """Beam search. width: at least 2. early_stopping: as in transformers."""

    width: int
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False


class Job(Struct, frozen=True, kw_only=True, eq=False):
    """One answer to generate.

    lane:     the model's name. history: `new_history` of params and prompt.
    ends:     the model's end tokens that apply; stops: the client's single stop tokens.
    words:    token sequences that end the answer.
    siblings: more answers to the same prompt, which is computed once; with `beams`, the ids of
              further hypotheses, best first.
    grammar:  the grammar that the answer must match.
    proposal: [D, V] float32 logits that the sequence's first drafts were drawn from; without it,
              the drafts have probability 1.
    context, generation: return the logits of the prompt, and of each drawn token.
    prompt_logprobs: return the log probabilities of the prompt's tokens.
    """

    lane: str
    sequence: Sequence
    params: RowParams
    history: History | None = None
    ends: frozenset[int] = frozenset()
    stops: frozenset[int] = frozenset()
    words: tuple[tuple[int, ...], ...] = ()
    siblings: "tuple[Job, ...]" = ()
    grammar: Grammar | None = None
    beams: Beams | None = None
    proposal: Tensor | None = None
    context: bool = False
    generation: bool = False
    prompt_logprobs: bool = False


class Delta(Struct, frozen=True, kw_only=True, eq=False):
    """The result of one step for one answer.

    drawn:   the new tokens, in order; empty if there is only an outcome.
    outcome: `None` while the answer continues. No delta follows an outcome.
    match:   the token or word that ended it.
    reason:  of the outcome "failed". lost: the whole engine has ended.
    field:   the request's field that caused the failure; "" if the engine failed.
    cached:  prompt tokens served by the prefix cache.
    logits:  [len(drawn), V] float32 on the CPU, if requested.
    context: [prompt, V] float32 on the CPU, with the first token, if requested.
    prompt:  the prompt's tokens from the second on, with the first token, if requested.
    timing:  of the answer, with its first token. The engine's thread goes on filling it in.
    """

    id: int
    drawn: tuple[SampledToken, ...] = ()
    outcome: Outcome | None = None
    match: tuple[int, ...] = ()
    cached: int = 0
    reason: str = ""
    lost: bool = False
    field: str = ""
    logits: Tensor | None = None
    context: Tensor | None = None
    prompt: tuple[SampledToken, ...] = ()
    timing: Timing | None = None


def ended(job: Job, tokens: list[int]) -> tuple[Finish | None, tuple[int, ...]]:
    """Return if and how the last of `tokens` (prompt and answer) ends the answer, and the match."""
    generated = len(tokens) - job.sequence.prompt
    token = tokens[-1]
    if token in job.ends:
        return "eos_token", ()
    if token in job.stops:
        return "stop_sequence", (token,)
    if job.words and generated > job.params.min_tokens:
        for word in job.words:
            if len(word) <= generated and tokens[-len(word) :] == list(word):
                return "stop_sequence", word
    if len(tokens) >= job.sequence.max_total:
        return "length", ()
    return None, ()


def before_end(job: Job, drafts: list[int]) -> list[int]:
    """Return the drafts before one that would end the answer."""
    for place, token in enumerate(drafts):
        if token in job.ends or token in job.stops:
            return drafts[:place]
    return drafts
