"""The running sequences with their places and pages, and those that wait for them."""

from collections import Counter
from collections.abc import Iterator

from strowger_gateway.local_engine.scheduling.block_pool import BlockPool, CorruptBlocks
from strowger_gateway.local_engine.scheduling.key_shares import KeyShares
from strowger_gateway.local_engine.scheduling.sequence import Sequence, State
from strowger_gateway.local_engine.scheduling.steps import Chunk, SchedulerLimits
from strowger_gateway.local_engine.scheduling.waiting_lines import WaitingLines
from strowger_gateway.schemas.holdings import Holder


class Residents:
    """Every change of a place or page passes through here, so that `shares` stays right.

    preemptions, reused: counted since the start. reused: pages that sequences found computed.
    """

    def __init__(self, limits: SchedulerLimits, blocks: BlockPool) -> None:
        self.limits = limits
        self.blocks = blocks
        self.shares = KeyShares(limits.max_sequences, blocks.total)
        self.running: list[Sequence] = []
        self.waiting = WaitingLines(limits.max_first_token_wait_s)
        self.parked: dict[int, Sequence] = {}
        self.preemptions = 0
        self.reused = 0

    @property
    def free_places(self) -> int:
        return self.limits.max_sequences - len(self.running)

    def live(self) -> Iterator[Sequence]:
        """Yield all sequences: those that run, then those that wait."""
        yield from self.running
        yield from self.waiting
        yield from self.parked.values()

    def of(self, holder: Holder) -> Iterator[Sequence]:
        """Yield the running sequences of a key."""
        for one in self.running:
            if one.holder.key == holder.key:
                yield one

    def worst_of(self, holder: Holder) -> Sequence:
        """Return the key's running sequence of the worst rank; there must be one."""
        return max(self.of(holder), key=lambda one: one.rank)

    def is_stuck(self, holder: Holder) -> bool:
        """Return whether the key runs sequences, and all of them wait for other beams."""
        found = False
        for one in self.of(holder):
            if one.pending:
                return False
            found = True
        return found

    def queue(self, sequence: Sequence) -> None:
        """Add a new sequence that waits."""
        sequence.holder = self.shares.enter(sequence.holder, sequence.arrival)
        self.waiting.add(sequence)

    def run(self, sequence: Sequence) -> None:
        """Count a sequence as running; it must not wait any longer."""
        sequence.state = State.RUNNING
        self.running.append(sequence)
        self.shares.places.hold(sequence.holder)

    def finish(self, sequence: Sequence) -> None:
        """Remove the sequence and free its pages. May be called twice."""
        if sequence.state is State.FINISHED:
            return
        if sequence.state is State.RUNNING:
            self._stop(sequence)
        elif sequence.state is State.PARKED:
            del self.parked[sequence.id]
        else:
            self.waiting.remove(sequence)
        sequence.state = State.FINISHED
        self.shares.leave(sequence.holder)

    def preempt(self, sequence: Sequence, chunks: dict[int, Chunk]) -> int:
        """Requeue a sequence without its pages; they stay cached, so that little is recomputed.

        One whose logits are known is parked: searches of several keys would otherwise compute the
        same beams again and again, and never the others. Return the tokens that were scheduled
        for it.
        """
        self._stop(sequence)
        sequence.blocks = []
        sequence.computed = 0
        sequence.drafts.clear()
        sequence.preempted += 1
        self.preemptions += 1
        if sequence.offered:
            sequence.state = State.PARKED
            self.parked[sequence.id] = sequence
        else:
            sequence.state = State.WAITING
            self.waiting.add(sequence)
        scheduled = chunks.pop(sequence.id, None)
        return scheduled.count if scheduled is not None else 0

    def resume(self, sequence: Sequence) -> None:
        """Queue the sequence if it is parked: it has its next token, which is to be computed."""
        sequence.offered = False
        if self.parked.pop(sequence.id, None) is not None:
            sequence.state = State.WAITING
            self.waiting.add(sequence)

    def reserve(self, sequence: Sequence, count: int) -> bool:
        """Allocate pages for the next `count` tokens, or return False and allocate none."""
        need = self.blocks.blocks_for(sequence.computed + count) - len(sequence.blocks)
        return need <= 0 or self.grow(sequence, need)

    def grow(self, sequence: Sequence, count: int) -> bool:
        """Allocate `count` pages, or return False and allocate none."""
        free = self.blocks.free
        grown = self.blocks.grow(sequence.blocks, count)
        self.shares.hold_pages(sequence.holder, free - self.blocks.free)
        return grown

    def share(self, sequence: Sequence, pages: int) -> None:
        """Give a sequence the cached pages of its beginning, at most `pages`."""
        free = self.blocks.free
        sequence.blocks.extend(self.blocks.share(sequence.hashes[:pages]))
        self.shares.hold_pages(sequence.holder, free - self.blocks.free)

    def release(self, sequence: Sequence) -> None:
        """Give the sequence's pages back."""
        free = self.blocks.free
        self.blocks.release(sequence.blocks)
        self.shares.hold_pages(sequence.holder, free - self.blocks.free)

    def check(self) -> None:
        """Raises CorruptBlocks unless pages, shares and sequences agree.

        In addition to the pool's invariants: no sequence writes to a page that another one holds,
        and what keys hold is what their sequences hold.
        """
        self.blocks.check(s.blocks for s in self.live())
        holders = Counter(block for s in self.live() for block in s.blocks)
        pages: dict[str, set[int]] = {}
        for sequence in self.live():
            written = sequence.blocks[sequence.computed // self.blocks.block_size :]
            if any(holders[block] > 1 for block in written):
                raise CorruptBlocks(f"sequence {sequence.id} would write to a shared page")
            pages.setdefault(sequence.holder.key, set()).update(sequence.blocks)
        places = Counter(s.holder.key for s in self.running)
        for holder in {s.holder for s in self.live()}:
            if self.shares.places.by_key(holder) != places[holder.key]:
                raise CorruptBlocks(f"the places of key {holder.key!r} do not add up")
            if self.shares.pages.by_key(holder) != len(pages[holder.key]):
                raise CorruptBlocks(f"the pages of key {holder.key!r} do not add up")
        if self.shares.places.used != len(self.running):
            raise CorruptBlocks("the places of all keys do not add up")
        if self.shares.pages.used != self.blocks.total - self.blocks.free:
            raise CorruptBlocks("the pages of all keys do not add up")

    def _stop(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.release(sequence)
        self.shares.places.give_back(sequence.holder)
