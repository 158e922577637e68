"""Draw tokens from the rows of a step, and verify drafts on the way.

A draft that equals the token drawn at its place is accepted, and the next row, which was computed
with it, is sampled as well. Because noise depends on (seed, position, token) only, an answer is the
same with and without drafts (as far as the rows' logits are). For drafts without a distribution,
this is also rejection sampling: a draft is accepted with the probability that the model gives it
(https://arxiv.org/abs/2302.01318, with q(draft) = 1).
"""

from collections.abc import Sequence

from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.execution.jobs import Job
from strowger_gateway.local_engine.execution.rejection_sampling import verify
from strowger_gateway.local_engine.execution.step_sampler import SampledToken, StepSampler


class DrawRequest(Struct, frozen=True, kw_only=True, eq=False):
    """One answer's draw in a step. row: the first of `1 + len(drafts)` rows to sample from.

    parent: set for a sibling, which starts from its parent's prompt.
    """

    job: Job
    row: int
    drafts: tuple[int, ...] = ()
    parent: Job | None = None

    @property
    def proposal(self) -> Tensor | None:
        """The logits that the drafts were drawn from; only a request's own drafts have them."""
        first = self.job.sequence.generated == 0 and self.parent is None
        return self.job.proposal if first and self.drafts else None

    @property
    def stateful(self) -> bool:
        """True if a row's distribution depends on the tokens drawn before it in this step."""
        return self.job.history is not None or self.job.grammar is not None


def draw_tokens(
    sampler: StepSampler, logits: Tensor, draws: Sequence[DrawRequest]
) -> list[list[SampledToken]]:
    """Return each draw's tokens: its accepted drafts and one more. logits: [R, V] float32."""
    drawn: list[list[SampledToken]] = [[] for _ in draws]
    open_draws: list[int] = []
    for place, draw in enumerate(draws):
        if draw.proposal is None:
            open_draws.append(place)
        else:
            rows = logits[draw.row : draw.row + 1 + len(draw.drafts)]
            drawn[place] = verify(sampler, rows, draw.job, draw.drafts, draw.proposal)
    depth = 0
    while open_draws:
        places = [
            (place, depth + more)
            for place in open_draws
            for more in range(1 if draws[place].stateful else 1 + len(draws[place].drafts))
        ]
        rows = [draws[place].row + more for place, more in places]
        selected = logits if rows == list(range(logits.shape[0])) else logits[rows]
        tokens = sampler.draw(
            selected, [draws[place].job for place, _ in places], [more for _, more in places]
        )
        for (place, more), token in zip(places, tokens, strict=True):
            if len(drawn[place]) == more and _right(draws[place], drawn[place]):
                drawn[place].append(token)
        open_draws = [
            place
            for place in open_draws
            if draws[place].stateful
            and len(drawn[place]) == depth + 1 <= len(draws[place].drafts)
            and _right(draws[place], drawn[place])
        ]
        depth += 1
    return drawn


def _right(draw: DrawRequest, drawn: Sequence[SampledToken]) -> bool:
    """True if the tokens drawn so far equal the drafts."""
    return all(one.token == draft for one, draft in zip(drawn, draw.drafts, strict=False))
