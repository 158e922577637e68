"""The pages of the key/value cache: which are held, which are free, and which can be reused.

A page ("block") stores `block_size` consecutive tokens of one sequence. A full page is identified
by a hash chained over everything before it, so that equal prompt beginnings of one tenant share
pages. A released page keeps its hash and content until the space is needed.
"""

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from strowger_gateway.local_engine.scheduling.free_extents import FreeExtents

EVICT_AT_ONCE = 16
"""Idle pages evicted together, so that new sequences find contiguous free pages."""


class CorruptBlocks(RuntimeError):
    """`check` found the pool inconsistent: a bug in the engine."""


def extend_hashes(
    hashes: list[bytes], tokens: Sequence[int], count: int, block_size: int, salt: bytes
) -> None:
    """Extend `hashes` to the first `count` full blocks of `tokens`. Chained, 16 bytes each."""
    parent = hashes[-1] if hashes else blake2b(salt, digest_size=16).digest()
    for index in range(len(hashes), count):
        content = array("q", tokens[index * block_size : (index + 1) * block_size])
        parent = blake2b(content.tobytes(), key=parent, digest_size=16).digest()
        hashes.append(parent)


class FreedPages:
    """Counts what releasing tables would free, before any is released."""

    def __init__(self, references: Sequence[int]) -> None:
        self._references = references
        self._released: Counter[int] = Counter()

    def count(self, blocks: Sequence[int]) -> int:
        """Return how many pages releasing one more table would free."""
        released, references = self._released, self._references
        return sum(released[block] + 1 == references[block] for block in blocks)

    def release(self, blocks: Sequence[int]) -> int:
        """Count a table as released; return how many pages that frees."""
        freed = self.count(blocks)
        self._released.update(blocks)
        return freed


class BlockPool:
    """Counts references to `total` pages and allocates contiguous pages if possible.

    taken: pages allocated so far.
    """

    def __init__(self, total: int, block_size: int, *, prefix_cache: bool = True) -> None:
        self.total = total
        self.block_size = block_size
        self.prefix_cache = prefix_cache
        self.taken = 0
        self._references = [0] * total
        self._clean = FreeExtents()
        if total:
            self._clean.add(0, total)
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}

    @property
    def free(self) -> int:
        """Pages without a holder, including those with reusable content."""
        return len(self._clean) + len(self._idle)

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def grow(self, blocks: list[int], count: int) -> bool:
        """Append `count` free pages to `blocks`; append none and return False if too few."""
        if count > self.free:
            return False
        if count > len(self._clean):
            self._evict(max(count - len(self._clean), EVICT_AT_ONCE))
        self.taken += max(count, 0)
        while count > 0:
            # Prefer the page after the sequence's last one: contiguous keys need no gather.
            first = blocks[-1] + 1 if blocks else -1
            taken = self._clean.take(first, count)
            if taken == 0:
                first = self._clean.best_start(count)
                taken = self._clean.take(first, count)
            for block in range(first, first + taken):
                self._references[block] = 1
                blocks.append(block)
            count -= taken
        return True

    def release(self, blocks: list[int]) -> None:
        """Drop one reference to each page and empty the list.

        The last page becomes the first to evict, so that beginnings survive longest.
        """
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                if block in self._hash_of:
                    self._idle[block] = None
                else:
                    self._clean.add(block)
        blocks.clear()

    def hold(self, blocks: Iterable[int]) -> list[int]:
        """Add one reference to each page and return the pages."""
        held = list(blocks)
        for block in held:
            self._references[block] += 1
        return held

    def freed_pages(self) -> "FreedPages":
        """Return a counter of the pages that releasing some tables would free."""
        return FreedPages(self._references)

    def share(self, hashes: Iterable[bytes]) -> list[int]:
        """Return the pages of the longest cached beginning of `hashes`; adds a reference each."""
        shared: list[int] = []
        for digest in hashes:
            block = self._block_of.get(digest)
            if block is None:
                break
            if self._references[block] == 0:
                del self._idle[block]
            self._references[block] += 1
            shared.append(block)
        return shared

    def publish(self, block: int, digest: bytes) -> None:
        """Allow sharing a page that is full and computed.

        A second page with the same content stays private.
        """
        if self.prefix_cache and digest not in self._block_of and block not in self._hash_of:
            self._block_of[digest] = block
            self._hash_of[block] = digest

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Check the pool; `tables` are the pages of all live sequences. Raises CorruptBlocks.

        Invariants: every page is exactly one of held, idle or clean; the references match the
        tables; no sequence holds a page twice.
        """
        held = [0] * self.total
        for table in tables:
            if len(set(table)) != len(table):
                raise CorruptBlocks(f"a sequence holds a page twice: {table}")
            for block in table:
                held[block] += 1
        if held != self._references:
            raise CorruptBlocks("references differ from what the sequences hold")
        free = [*self._clean, *self._idle]
        if len(set(free)) != len(free) or any(held[block] for block in free):
            raise CorruptBlocks("a page is free twice, or free and held")
        if len(free) != self.free or self.free + sum(map(bool, held)) != self.total:
            raise CorruptBlocks("free and held pages do not add up")
        if {digest: block for block, digest in self._hash_of.items()} != self._block_of:
            raise CorruptBlocks("hashes and pages disagree")
        if any(block in self._hash_of for block in self._clean):
            raise CorruptBlocks("a clean page has a hash")

    def _evict(self, count: int) -> None:
        """Drop the content of up to `count` idle pages, the least recently used first."""
        for _ in range(min(count, len(self._idle))):
            block, _ = self._idle.popitem(last=False)
            del self._block_of[self._hash_of.pop(block)]
            self._clean.add(block)
