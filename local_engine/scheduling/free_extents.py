"""Free pages as maximal contiguous runs, so that a sequence can be stored in one piece."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class FreeExtents:
    """A set of integers, stored as runs. Methods cost O(log runs), `best_start` O(runs)."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._lengths: dict[int, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for start in self._starts:
            yield from range(start, start + self._lengths[start])

    def add(self, first: int, count: int = 1) -> None:
        """Add `first` … `first + count - 1`, none of which may be in the set."""
        at = bisect_left(self._starts, first)
        self._count += count
        if at < len(self._starts) and self._starts[at] == first + count:
            count += self._lengths.pop(self._starts.pop(at))
        if at > 0 and (left := self._starts[at - 1]) + self._lengths[left] == first:
            self._lengths[left] += count
            return
        self._starts.insert(at, first)
        self._lengths[first] = count

    def take(self, first: int, limit: int) -> int:
        """Remove `first` and its right neighbours, at most `limit`; return how many were removed.

        0: `first` is not in the set.
        """
        at = bisect_right(self._starts, first) - 1
        if at < 0:
            return 0
        start = self._starts[at]
        end = start + self._lengths[start]
        if first >= end:
            return 0
        taken = min(limit, end - first)
        self._count -= taken
        if first > start:
            self._lengths[start] = first - start
        else:
            del self._lengths[start]
            self._starts.pop(at)
        if first + taken < end:
            self._lengths[first + taken] = end - first - taken
            self._starts.insert(bisect_left(self._starts, first + taken), first + taken)
        return taken

    def best_start(self, wanted: int) -> int:
        """Return where a new run of `wanted` should begin so that it and its neighbour can grow.

        The longest free run is halved: the sequence that ends just before it can grow into its left
        half. The cut is the roundest number near the middle, so that several sequences end up at
        equal distances and can be read as one batch. The set must not be empty.
        """
        start = max(self._starts, key=self._lengths.__getitem__)
        length = self._lengths[start]
        if start == 0:
            return start
        low, high = start + length // 4, start + (3 * length) // 4
        cut = _roundest(low, high)
        return cut if start + length - cut >= wanted else start


def _roundest(low: int, high: int) -> int:
    """Return the number in [low, high] that is divisible by the largest power of two."""
    step = 1 << max(high - low, 1).bit_length()
    while step > 1:
        candidate = -(-low // step) * step
        if candidate <= high:
            return candidate
        step >>= 1
    return low
