"""Who draws from which rows of a step, and the drawing itself: drafts are checked as it goes.

A draft that equals the token drawn at its place is right, and the next row, which was computed
with it, is drawn from as well. Because noise depends on (seed, position, token) alone, an answer
is the same with drafts and without (as far as the rows' logits are); for drafts without a
distribution of their own it is also how rejection sampling accepts: with the probability that the
model gives the draft (https://arxiv.org/abs/2302.01318, with q(draft) = 1).
"""

from collections.abc import Sequence

from msgspec import Struct
from torch import Tensor

from local_engine.execution.jobs import Job
from local_engine.execution.rejection_sampling import verify
from local_engine.execution.step_sampler import SampledToken, StepSampler


class DrawRequest(Struct, frozen=True, kw_only=True, eq=False):
    """row: the first of `1 + len(drafts)` rows to draw from.

    parent: set for a sibling, which begins with its parent's prompt.
    """

    job: Job
    row: int
    drafts: tuple[int, ...] = ()
    parent: Job | None = None

    @property
    def proposal(self) -> Tensor | None:
        """The logits that the drafts were drawn from; only a request's own come with any."""
        first = self.job.sequence.generated == 0 and self.parent is None
        return self.job.proposal if first and self.drafts else None

    @property
    def stateful(self) -> bool:
        """Whether a row's distribution depends on the tokens drawn before it in this step."""
        return self.job.history is not None or self.job.grammar is not None


def draw_tokens(
    drawer: StepSampler, logits: Tensor, turns: Sequence[DrawRequest]
) -> list[list[SampledToken]]:
    """The tokens of each turn: its right drafts and one more. logits: [R, V] float32."""
    drawn: list[list[SampledToken]] = [[] for _ in turns]
    open_turns: list[int] = []
    for place, turn in enumerate(turns):
        if turn.proposal is None:
            open_turns.append(place)
        else:
            rows = logits[turn.row : turn.row + 1 + len(turn.drafts)]
            drawn[place] = verify(drawer, rows, turn.job, turn.drafts, turn.proposal)
    depth = 0
    while open_turns:
        places = [
            (place, depth + more)
            for place in open_turns
            for more in range(1 if turns[place].stateful else 1 + len(turns[place].drafts))
        ]
        rows = [turns[place].row + more for place, more in places]
        asked = logits if rows == list(range(logits.shape[0])) else logits[rows]
        tokens = drawer.draw(
            asked, [turns[place].job for place, _ in places], [more for _, more in places]
        )
        for (place, more), token in zip(places, tokens, strict=True):
            if len(drawn[place]) == more and _right(turns[place], drawn[place]):
                drawn[place].append(token)
        open_turns = [
            place
            for place in open_turns
            if turns[place].stateful
            and len(drawn[place]) == depth + 1 <= len(turns[place].drafts)
            and _right(turns[place], drawn[place])
        ]
        depth += 1
    return drawn


def _right(turn: DrawRequest, drawn: Sequence[SampledToken]) -> bool:
    """Whether what was drawn so far is what was guessed."""
    return all(one.token == draft for one, draft in zip(drawn, turn.drafts, strict=False))
