"""Cache of adapters that requests sent, for later requests.

As in TensorRT-LLM, the first request of a task sends the weights, later ones only the task id, and
a full cache evicts the least recently used adapter. Task ids are scoped to their tenant.
"""

from collections import Counter, OrderedDict
from threading import Lock

from msgspec import Struct

from strowger_gateway.local_engine.peft.lora_layers import Adapter
from strowger_gateway.schemas.errors import UpstreamBusy

NAME = "local engine"


class AdapterKey(Struct, frozen=True, kw_only=True):
    """Key of an adapter. model: the base model's name."""

    model: str
    tenant: str
    id: int


class LoraCache:
    """Holds at most `most` adapters with `most_bytes` in total. Safe to call from any thread.

    Adapters in use stay in the cache and count, even if other weights replaced them.
    """

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self._lock = Lock()
        self._known: OrderedDict[AdapterKey, Adapter] = OrderedDict()
        self._replaced: dict[int, Adapter] = {}
        self._pins: Counter[int] = Counter()

    @property
    def count(self) -> int:
        return len(self._known) + len(self._replaced)

    @property
    def bytes(self) -> int:
        """Bytes of all adapters, including replaced ones that are still in use."""
        return sum(one.bytes for one in (*self._known.values(), *self._replaced.values()))

    def take(self, task: AdapterKey) -> Adapter | None:
        """Return the task's adapter and pin it until `release`; `None` for an unknown task."""
        with self._lock:
            found = self._known.get(task)
            if found is not None:
                self._known.move_to_end(task)
                self._pins[id(found)] += 1
            return found

    def put(self, task: AdapterKey, adapter: Adapter) -> Adapter:
        """Store an adapter for a task and pin it until `release`; equal weights are stored once.

        Returns the adapter to use. Raises UpstreamBusy if all others are in use.
        """
        with self._lock:
            known = self._known.get(task)
            if known is not None and known.digest == adapter.digest:
                self._known.move_to_end(task)
                self._pins[id(known)] += 1
                return known
            self._make_room(task, adapter.bytes)
            known = self._known.pop(task, None)
            if known is not None and self._pins[id(known)]:
                self._replaced[id(known)] = known
            self._known[task] = adapter
            self._pins[id(adapter)] += 1
            return adapter

    def release(self, adapter: Adapter) -> None:
        """Unpin an adapter. Call it once for each `take` and `put`."""
        with self._lock:
            self._pins[id(adapter)] -= 1
            if self._pins[id(adapter)] <= 0:
                del self._pins[id(adapter)]
                self._replaced.pop(id(adapter), None)

    def _make_room(self, task: AdapterKey, wanted: int) -> None:
        """Evict idle adapters, or none if evicting all of them is not enough."""
        idle = [name for name, one in self._known.items() if not self._pins[id(one)]]
        idle.sort(key=lambda name: name != task)
        freed = sum(self._known[name].bytes for name in idle)
        if self.count - len(idle) >= self.most or self.bytes - freed + wanted > self.most_bytes:
            raise UpstreamBusy(
                "the adapter cache is full and all its adapters are in use",
                upstream=NAME,
                retry_after=1.0,
            )
        while self.count >= self.most or self.bytes + wanted > self.most_bytes:
            del self._known[idle.pop(0)]
