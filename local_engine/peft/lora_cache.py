"""Adapters that came inside requests: kept for the requests that follow, while there is room.

TensorRT-LLM's rule: the first request of a task brings the weights, later ones only name it, and
when the cache is full the longest unused ones give way. Here a task id is its tenant's own.
"""

from collections import Counter, OrderedDict
from threading import Lock

from msgspec import Struct

from local_engine.peft.lora_layers import Adapter
from schemas.errors import UpstreamBusy

NAME = "local engine"


class AdapterKey(Struct, frozen=True, kw_only=True):
    """Whose adapter it is. model: the base model's name."""

    model: str
    tenant: str
    id: int


class AdapterBank:
    """Holds at most `most` adapters and `most_bytes` of them. Safe to call from any thread.

    What is in use stays, and stays counted, even when other weights took its name.
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
        """That the adapters take, those in use under a name they lost included."""
        return sum(one.bytes for one in (*self._known.values(), *self._replaced.values()))

    def take(self, task: AdapterKey) -> Adapter | None:
        """The task's adapter, in use from now on until `release`; `None` for an unknown task."""
        with self._lock:
            found = self._known.get(task)
            if found is not None:
                self._known.move_to_end(task)
                self._pins[id(found)] += 1
            return found

    def put(self, task: AdapterKey, adapter: Adapter) -> Adapter:
        """Keep it under the task's name, in use until `release`; equal weights are kept once.

        Returns the one to use. Raises UpstreamBusy where everything that could give way is in use.
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
        """A use is over. One release for each `take` and `put`."""
        with self._lock:
            self._pins[id(adapter)] -= 1
            if self._pins[id(adapter)] <= 0:
                del self._pins[id(adapter)]
                self._replaced.pop(id(adapter), None)

    def _make_room(self, task: AdapterKey, wanted: int) -> None:
        """Nobody loses anything where all that could would not be enough."""
        idle = [name for name, one in self._known.items() if not self._pins[id(one)]]
        idle.sort(key=lambda name: name != task)
        freed = sum(self._known[name].bytes for name in idle)
        if self.count - len(idle) >= self.most or self.bytes - freed + wanted > self.most_bytes:
            raise UpstreamBusy("all room for adapters is in use", upstream=NAME, retry_after=1.0)
        while self.count >= self.most or self.bytes + wanted > self.most_bytes:
            del self._known[idle.pop(0)]
