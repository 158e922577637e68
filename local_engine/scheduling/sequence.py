"""One running answer: its tokens, how far they are computed, and the blocks it holds."""

from enum import Enum
from typing import Literal

import msgspec
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.peft.lora_layers import Adapter
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

Finish = Literal["eos_token", "stop_sequence", "length"]


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    PARKED = "parked"
    """It has given its place and pages up, and needs neither until other beams are computed."""
    FINISHED = "finished"


class Sequence(Struct, kw_only=True, eq=False):
    """Mutable; owned by the engine's thread once submitted.

    id:        unique within the engine.
    tokens:    the prompt, then the generated tokens.
    prompt:    number of prompt tokens.
    max_total: `tokens` never grow longer than this.
    priority:  1 (first) … 5. level: the same, as improved by waiting.
    arrival:   engine clock, seconds; breaks ties, earlier first.
    deadline:  engine clock at which the answer ends, finished or not.
    holder:    the API key and team for which it holds a place and pages.
    salt:      shares prefix-cache entries with equal salts only, which are of one key.
    computed:  leading tokens whose keys and values are in the cache.
    blocks:    the pages of those keys and values, in order. The list only grows while the sequence
               runs, and a preempted sequence gets a new one.
    hashes:    of the leading full blocks, as far as they are known.
    cached:    prompt tokens served by the prefix cache at the first start.
    preempted: how often it was preempted.
    drafts:    draft tokens after `tokens`, computed and verified in the same step.
    offered:   a beam whose logits its search has. It waits for those of the other beams.
    fresh:     do not use the prefix cache, because the logits of every prompt token are needed.
    adapter:   its LoRA adapter, `None` for the plain model; also part of `salt`.
    table:     [P, hidden] embeddings of the ids past the vocabulary; also part of `salt`.
    """

    id: int
    tokens: list[int]
    prompt: int
    max_total: int
    priority: int = 5
    level: int = 5
    arrival: float = 0.0
    deadline: float = float("inf")
    holder: Holder = ANONYMOUS
    salt: bytes = b""
    state: State = State.WAITING
    computed: int = 0
    blocks: list[int]
    hashes: list[bytes]
    cached: int = -1
    preempted: int = 0
    drafts: list[int]
    offered: bool = False
    fresh: bool = False
    adapter: Adapter | None = None
    table: Tensor | None = None

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt

    @property
    def pending(self) -> int:
        """Tokens still to compute, drafts included; 0: it waits for the other beams."""
        return len(self.tokens) + len(self.drafts) - self.computed

    @property
    def prefilling(self) -> bool:
        """True if more than its last token (without drafts) is still to compute."""
        return len(self.tokens) - self.computed > 1

    @property
    def rank(self) -> tuple[int, float, int]:
        """Smaller runs first; the largest is preempted first."""
        return (self.level, self.arrival, self.id)


def new_sequence(
    *,
    id: int,
    prompt: list[int],
    max_total: int,
    priority: int = 5,
    arrival: float = 0.0,
    deadline: float = float("inf"),
    holder: Holder = ANONYMOUS,
    salt: bytes = b"",
    drafts: list[int] | None = None,
    fresh: bool = False,
    adapter: Adapter | None = None,
    table: Tensor | None = None,
) -> Sequence:
    """Return an unscheduled sequence. `prompt` is copied; it must not be empty."""
    return Sequence(
        id=id,
        tokens=list(prompt),
        prompt=len(prompt),
        max_total=max_total,
        priority=priority,
        level=priority,
        arrival=arrival,
        deadline=deadline,
        holder=holder,
        salt=salt,
        blocks=[],
        hashes=[],
        drafts=drafts or [],
        fresh=fresh,
        adapter=adapter,
        table=table,
    )


def twin(parent: Sequence, id: int) -> Sequence:
    """Return an unscheduled copy of the sequence with the same tokens and limits."""
    return msgspec.structs.replace(
        parent,
        id=id,
        tokens=list(parent.tokens),
        state=State.WAITING,
        computed=0,
        blocks=[],
        hashes=list(parent.hashes),
        drafts=[],
        offered=False,
        preempted=0,
    )
