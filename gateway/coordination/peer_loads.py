"""The attempts of other replicas: their sums, kept up to date by what changes."""

from collections.abc import Iterable, Mapping


class PeerLoads:
    """A change of one replica costs as much as its own numbers, however many replicas there are."""

    def __init__(self) -> None:
        self._by_peer: dict[bytes, Mapping[str, int]] = {}
        self._totals: dict[str, int] = {}
        self._changed: dict[str, int] = {}

    def put(self, peer: bytes, attempts: Iterable[tuple[str, int]]) -> None:
        """Replace the attempts of one replica, by backend."""
        self.remove(peer)
        self._by_peer[peer] = own = dict(attempts)
        for key, count in own.items():
            self._add(key, count)

    def remove(self, peer: bytes) -> None:
        """A replica is gone, and with it its attempts."""
        for key, count in self._by_peer.pop(peer, {}).items():
            self._add(key, -count)

    def remove_all(self) -> None:
        for peer in tuple(self._by_peer):
            self.remove(peer)

    def changes(self) -> dict[str, int]:
        """Return the sums that differ from those of the last call; 0 for those that ended."""
        now = {key: self._totals.get(key, 0) for key in self._changed}
        changed = {key: count for key, count in now.items() if count != self._changed[key]}
        self._changed.clear()
        return changed

    def _add(self, key: str, count: int) -> None:
        before = self._totals.get(key, 0)
        self._changed.setdefault(key, before)
        if before + count:
            self._totals[key] = before + count
        else:
            self._totals.pop(key, None)
