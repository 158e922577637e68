"""Messages about their caches between the leader and the serving processes."""

from collections.abc import Iterable, Mapping

from msgspec import Struct


class StateWanted(Struct, frozen=True, kw_only=True, tag=True):
    """To all processes: report what is in memory. clear: forget it before that.

    id: of the answers. model: clear the entries of this model only, "" for all.
    """

    id: int
    clear: bool = False
    model: str = ""


class MemoryReport(Struct, frozen=True, kw_only=True, tag=True):
    """Of one process. entries: by model. evicted, failed, shared, cleared: how many.

    failed: uses of Redis. shared: hits that waited for an equal request.
    """

    id: int
    entries: Mapping[str, int]
    bytes: int
    evicted: int
    failed: int
    shared: int
    cleared: int = 0


class MemoryAsked(Struct, frozen=True, kw_only=True, tag=True):
    """A question of a process about the memories of all; see StateWanted."""

    clear: bool = False
    model: str = ""


class MemoryState(Struct, frozen=True, kw_only=True):
    """Of all processes of this gateway, added up. complete: all have reported in time."""

    entries: Mapping[str, int]
    bytes: int = 0
    evicted: int = 0
    failed: int = 0
    shared: int = 0
    cleared: int = 0
    complete: bool = True


def added(reports: Iterable[MemoryReport], *, complete: bool) -> MemoryState:
    entries: dict[str, int] = {}
    numbers = [0, 0, 0, 0, 0]
    for one in reports:
        for model, count in one.entries.items():
            entries[model] = entries.get(model, 0) + count
        found = (one.bytes, one.evicted, one.failed, one.shared, one.cleared)
        numbers = [sum(pair) for pair in zip(numbers, found, strict=True)]
    size, evicted, failed, shared, cleared = numbers
    return MemoryState(
        entries=entries,
        bytes=size,
        evicted=evicted,
        failed=failed,
        shared=shared,
        cleared=cleared,
        complete=complete,
    )
