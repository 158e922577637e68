"""One answer in the making: its tokens, how far they are computed, and the blocks it holds."""

from enum import Enum
from typing import Literal

import msgspec
from msgspec import Struct
from torch import Tensor

from local_engine.peft.lora_layers import Adapter

Finish = Literal["eos_token", "stop_sequence", "length"]


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


class Sequence(Struct, kw_only=True, eq=False):
    """Mutable, and owned by the engine's thread once it was submitted.

    id:        unique within the engine.
    tokens:    prompt, then what was generated.
    prompt:    how many of `tokens` are the prompt.
    max_total: `tokens` never grow longer than this.
    priority:  1 (first) … 5. level: the same, as improved by waiting.
    arrival:   engine clock, seconds; breaks ties, the earlier first.
    deadline:  engine clock at which the answer is over, finished or not.
    salt:      whose prefix-cache entries may be reused.
    computed:  leading tokens whose keys and values are in the cache.
    blocks:    the pages of those keys and values, in order.
    hashes:    of the leading full blocks, as far as they are known.
    cached:    prompt tokens that the prefix cache gave at the first start.
    preempted: how often its blocks were taken away again.
    drafts:    guesses of what follows `tokens`, to be computed, and checked, in the same step.
    fresh:     nothing is taken from the prefix cache: the logits of every prompt token are wanted.
    adapter:   the low-rank adapter that computes it, `None` for the model as it is; in `salt` too.
    table:     [P, hidden] embeddings of the ids from the vocabulary's end on; in `salt` too.
    """

    id: int
    tokens: list[int]
    prompt: int
    max_total: int
    priority: int = 5
    level: int = 5
    arrival: float = 0.0
    deadline: float = float("inf")
    salt: bytes = b""
    state: State = State.WAITING
    computed: int = 0
    blocks: list[int]
    hashes: list[bytes]
    cached: int = -1
    preempted: int = 0
    drafts: list[int]
    fresh: bool = False
    adapter: Adapter | None = None
    table: Tensor | None = None

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt

    @property
    def pending(self) -> int:
        """Tokens still to be computed, drafts included; 0: it waits for the rest of its beams."""
        return len(self.tokens) + len(self.drafts) - self.computed

    @property
    def prefilling(self) -> bool:
        """More than its last token, drafts aside, is still to be computed."""
        return len(self.tokens) - self.computed > 1

    @property
    def rank(self) -> tuple[int, float, int]:
        """Smaller goes first; the largest is the first to lose its blocks."""
        return (self.level, self.arrival, self.id)


def new_sequence(
    *,
    id: int,
    prompt: list[int],
    max_total: int,
    priority: int = 5,
    arrival: float = 0.0,
    deadline: float = float("inf"),
    salt: bytes = b"",
    drafts: list[int] | None = None,
    fresh: bool = False,
    adapter: Adapter | None = None,
    table: Tensor | None = None,
) -> Sequence:
    """A sequence that has not been scheduled yet. `prompt` is copied; it must not be empty."""
    return Sequence(
        id=id,
        tokens=list(prompt),
        prompt=len(prompt),
        max_total=max_total,
        priority=priority,
        level=priority,
        arrival=arrival,
        deadline=deadline,
        salt=salt,
        blocks=[],
        hashes=[],
        drafts=drafts or [],
        fresh=fresh,
        adapter=adapter,
        table=table,
    )


def twin(parent: Sequence, id: int) -> Sequence:
    """Another sequence with the same tokens and terms, not scheduled yet."""
    return msgspec.structs.replace(
        parent,
        id=id,
        tokens=list(parent.tokens),
        state=State.WAITING,
        computed=0,
        blocks=[],
        hashes=list(parent.hashes),
        drafts=[],
        preempted=0,
    )
