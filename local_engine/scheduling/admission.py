"""Admit waiting sequences: in turn by key, within each key's bound, by preemption if need be."""

from collections import Counter
from collections.abc import Iterator
from enum import Enum

from strowger_gateway.local_engine.scheduling.block_pool import extend_hashes
from strowger_gateway.local_engine.scheduling.giving_way import GivingWay
from strowger_gateway.local_engine.scheduling.residents import Residents
from strowger_gateway.local_engine.scheduling.sequence import Sequence, State
from strowger_gateway.local_engine.scheduling.steps import Chunk, grant
from strowger_gateway.local_engine.scheduling.waiting_lines import Turns

MISSES = 4
"""Sequences that do not fit, after which a step tries no further ones."""


class Fit(Enum):
    ADMITTED = "admitted"
    AT_BOUND = "at bound"
    """Its key holds as much as one key may."""
    NO_ROOM = "no room"


class Admission:
    """Admits from `residents.waiting`.

    A sequence that finds no room keeps its turn: none of its key passes it. Other keys' may pass
    with what a single key never holds, so that neither a large prompt starves, nor do others wait
    for it.
    """

    def __init__(self, residents: Residents) -> None:
        self._residents = residents
        self._blocked: Sequence | None = None
        self._passed: set[int] = set()
        """Sequences that were admitted before the blocked one."""
        self._spare: float | None = None
        """What the largest team could hold after giving way; `None` if it has to be computed."""

    def admit(
        self,
        turns: Turns,
        chunks: dict[int, Chunk],
        budget: int,
        now: float,
        quotas: dict[str, int] | None = None,
        *,
        most: int,
        pressed: bool = False,
    ) -> int:
        """Admit in turn, and schedule what was admitted. Return the budget that is left.

        turns: of this step. quotas: the tokens that each key may use, none where a key is absent;
        `None`: no other key competes for them.
        most: the whole step's budget. pressed: running sequences lacked pages in this step, so
        keys that hold more than their share wait.
        """
        residents = self._residents
        waiting, shares = residents.waiting, residents.shares
        blocked, misses = False, 0
        self._spare = None
        while budget > 0 and misses < MISSES and (sequence := turns.next()) is not None:
            holder = sequence.holder
            tokens = budget if quotas is None else min(budget, quotas.get(holder.key, 0))
            if tokens <= 0 or (pressed and shares.over_share(holder)):
                continue
            if blocked and not self._may_pass(sequence, now):
                continue
            sequence.level = waiting.aged(sequence, now)
            before = residents.preemptions
            fit = self._fit(sequence, chunks)
            if fit is Fit.ADMITTED or residents.preemptions > before:
                self._spare = None
            if residents.preemptions > before:
                # The preempted ones may have had tokens in this step.
                budget = most - sum(chunk.count for chunk in chunks.values())
                tokens = min(tokens, budget)
            if fit is Fit.NO_ROOM:
                if quotas is None:
                    break
                blocked, misses = True, misses + 1
                self._block(sequence)
            elif fit is Fit.ADMITTED:
                if blocked:
                    self._passed.add(sequence.id)
                if not residents.reserve(sequence, min(sequence.pending, tokens)):
                    sequence.drafts.clear()
                count = grant(sequence, min(sequence.pending, tokens), chunks)
                budget -= count
                if quotas is not None:
                    quotas[holder.key] -= count
                turns.push(holder)
        return budget

    def turns(self, now: float) -> Turns:
        """Return the lines from which this step may admit.

        If no place is free and each team has one at most, none gives way to another key. Then only
        the keys that run something may admit, by preempting their own.
        """
        residents = self._residents
        lines = None
        if residents.free_places <= 0 and residents.shares.contended:
            held = Counter(one.holder.group for one in residents.running)
            if max(held.values()) < 2:
                holders = {one.holder.key: one.holder for one in residents.running}.values()
                found = [residents.waiting.line_of(holder) for holder in holders]
                lines = [line for line in found if line is not None]
        return Turns(residents.waiting, residents.shares, now, residents.is_stuck, lines)

    def _block(self, sequence: Sequence) -> None:
        """Note the first sequence that found no room, until it is admitted or gone."""
        if self._blocked is None or self._blocked.state is not State.WAITING:
            self._blocked = sequence
            self._passed.clear()

    def _may_pass(self, sequence: Sequence, now: float) -> bool:
        """Return whether a sequence may be admitted before the blocked one."""
        blocked, residents = self._blocked, self._residents
        if blocked is None or sequence.holder.key == blocked.holder.key:
            return False
        blocks, shares = residents.blocks, residents.shares
        pages = shares.pages.reserve
        huge = blocks.blocks_for(len(blocked.tokens)) + pages > blocks.total
        if huge and now - blocked.arrival > residents.limits.max_first_token_wait_s:
            return False
        passed = [one for one in residents.running if one.id in self._passed]
        held = sum(len(one.blocks) for one in passed)
        return (
            len(passed) < shares.places.reserve
            and held + blocks.blocks_for(len(sequence.tokens)) <= pages
        )

    def _fit(self, sequence: Sequence, chunks: dict[int, Chunk]) -> Fit:
        """Admit a sequence unless it finds no room, or its key is at its bound.

        If all that the key runs waits for other beams, and those for a place, the worst of them
        gives way to a better one. A single search may exceed the bound, or it would never end.
        """
        fit = self._admit(sequence, chunks, bounded=True)
        if fit is not Fit.AT_BOUND or not self._residents.is_stuck(sequence.holder):
            return fit
        worst = self._residents.worst_of(sequence.holder)
        if worst.rank < sequence.rank:
            return self._admit(sequence, chunks, bounded=False)
        self._residents.preempt(worst, chunks)
        return self._admit(sequence, chunks, bounded=True)

    def _admit(self, sequence: Sequence, chunks: dict[int, Chunk], *, bounded: bool) -> Fit:
        """Admit a sequence if pages for all its tokens and one per running sequence are free."""
        residents, blocks = self._residents, self._residents.blocks
        cached = blocks.prefix_cache and not sequence.fresh
        # The last token is always computed: its logits are needed to draw the next one.
        reusable = (len(sequence.tokens) - 1) // blocks.block_size if cached else 0
        extend_hashes(sequence.hashes, sequence.tokens, reusable, blocks.block_size, sequence.salt)
        # Hold shared pages first, so that they neither count as free nor get evicted below.
        residents.share(sequence, reusable)
        hits = len(sequence.blocks)
        need = blocks.blocks_for(len(sequence.tokens)) - hits
        victims = self._choose_victims(sequence, need, bounded=bounded)
        if isinstance(victims, Fit):
            residents.release(sequence)
            return victims
        for victim in victims:
            residents.preempt(victim, chunks)
        if not residents.grow(sequence, need):
            residents.release(sequence)
            return Fit.NO_ROOM
        residents.reused += hits
        sequence.computed = hits * blocks.block_size
        # Reported once: after a preemption, hits are mostly the sequence's own pages.
        if sequence.cached < 0:
            sequence.cached = sequence.computed
        residents.waiting.served(sequence)
        residents.run(sequence)
        return Fit.ADMITTED

    def _choose_victims(
        self, sequence: Sequence, need: int, *, bounded: bool
    ) -> list[Sequence] | Fit:
        """Return the sequences to preempt so that this one fits, or why it cannot fit.

        Those of its own key have a worse level. Their priority was worse from the start, or they
        have started to answer while this one waited too long to start. A sequence uses this right
        only once, so that equals do not preempt each other for ever. Another key's give way if
        that key holds more (see `GivingWay`) and they are not more urgent, or it is at its bound.
        """
        residents = self._residents
        running, shares = residents.running, residents.shares
        if not running:
            return []
        victims: list[Sequence] = []
        free, places = residents.blocks.free, residents.free_places
        freed = residents.blocks.freed_pages()
        weaker = _Weaker(residents, sequence)
        if bounded and shares.places.several:
            excess = shares.excess(sequence.holder, need)
            while excess(len(victims), free - residents.blocks.free):
                if (worst := weaker.take()) is None:
                    return Fit.AT_BOUND
                victims.append(worst)
                free += freed.release(worst.blocks)
            places += len(victims)
        others: GivingWay | None = None

        def able(one: Sequence) -> bool:
            urgent = one.priority < sequence.priority and one.priority <= sequence.level
            return not urgent or shares.over_bound(one.holder)

        # One free page per running sequence, so that the next decoding step need not preempt.
        while places < 1 or free < need + len(running) - len(victims):
            if others is None:
                others = GivingWay(shares, freed, sequence, places=1, pages=need)
                if self._may_take(sequence, need):
                    others.offer(running, able)
            if (found := others.take()) is not None:
                victims.append(found[0])
                free += found[1]
            elif (worst := weaker.take()) is not None:
                victims.append(worst)
                free += freed.release(worst.blocks)
            else:
                return Fit.NO_ROOM
            places += 1
        return victims

    def _may_take(self, sequence: Sequence, need: int) -> bool:
        """Return whether another key could give way: a quick look, before each is compared."""
        residents, holder = self._residents, sequence.holder
        shares = residents.shares
        if not shares.contended or shares.has_mates(holder):
            return shares.contended
        if self._spare is None:
            groups = {one.holder.group: one.holder for one in residents.running}
            self._spare = shares.spare(groups.values())
        places, pages = shares.places.by_group(holder), shares.pages.by_group(holder)
        return self._spare >= shares.load(places + 1, pages + need)


class _Weaker:
    """The running sequences of a key that one of its own may preempt, the worst rank first."""

    def __init__(self, residents: Residents, sequence: Sequence) -> None:
        self._residents = residents
        self._sequence = sequence
        self._found: list[Sequence] | None = None

    def take(self) -> Sequence | None:
        if self._found is None:
            self._found = sorted(self._all(), key=lambda one: one.rank)
        return self._found.pop() if self._found else None

    def _all(self) -> Iterator[Sequence]:
        sequence = self._sequence
        # `cached` is negative until the first start.
        late = sequence.cached < 0 and sequence.level < sequence.priority
        for one in self._residents.of(sequence.holder):
            if one.level > sequence.level and (
                one.priority > sequence.priority or (late and one.generated > 0)
            ):
                yield one
