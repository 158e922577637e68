"""The attempts of other gateways: their sums, kept up to date by what changes."""

from collections.abc import Callable, Mapping

Attempts = Mapping[str, Mapping[str, int]]
"""By provider (`Shared`) and backend, as in a notice."""

_NONE: Mapping[str, int] = {}


class PeerLoads:
    """A change costs as much as what has changed, however many gateways there are."""

    def __init__(self, place: Callable[[str], str | None]) -> None:
        """place: returns the shared provider of a backend here, or `None`."""
        self._place = place
        self._by_peer: dict[bytes, Attempts] = {}
        self._totals: dict[str, int] = {}
        self._changed: dict[str, int] = {}

    def put(self, peer: bytes, attempts: Attempts) -> None:
        """Replace the attempts of one gateway. Backends that are not here too do not count."""
        before = self._by_peer.get(peer, {})
        self._by_peer[peer] = attempts
        for place in before.keys() | attempts.keys():
            old, new = before.get(place, _NONE), attempts.get(place, _NONE)
            if old == new:
                continue
            for key, count in new.items() - old.items():
                self._add(place, key, count - old.get(key, 0))
            for key in old.keys() - new.keys():
                self._add(place, key, -old[key])

    def remove(self, peer: bytes) -> None:
        """A gateway is gone, and with it its attempts."""
        if peer in self._by_peer:
            self.put(peer, {})
            del self._by_peer[peer]

    def remove_all(self) -> None:
        for key, count in self._totals.items():
            self._changed.setdefault(key, count)
        self._totals.clear()
        self._by_peer.clear()

    def changes(self) -> dict[str, int]:
        """Return the sums that differ from those of the last call; 0 for those that ended."""
        now = {key: self._totals.get(key, 0) for key in self._changed}
        changed = {key: count for key, count in now.items() if count != self._changed[key]}
        self._changed.clear()
        return changed

    def _add(self, place: str, key: str, count: int) -> None:
        if self._place(key) != place:
            return
        before = self._totals.get(key, 0)
        self._changed.setdefault(key, before)
        if before + count:
            self._totals[key] = before + count
        else:
            self._totals.pop(key, None)
