"""Which adapters the cache keeps, and which it evicts."""

from collections import OrderedDict
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.local_engine.peft.lora_cache import AdapterKey, LoraCache
from strowger_gateway.local_engine.peft.lora_layers import Adapter
from strowger_gateway.schemas.errors import UpstreamBusy
from tests.examples import examples

MOST, MOST_BYTES = 3, 10
Event = tuple[Literal["take", "put", "release"], int, int]
"""The operation, its task and bytes; for `release`, the index among those in use."""

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("take", "put", "put", "release")), st.integers(0, 4), st.integers(1, 6)
    ),
    max_size=60,
)


def adapter(bytes: int, content: int = 0) -> Adapter:
    digest = f"{bytes} {content}".encode()
    return Adapter(digest=digest, products={}, bytes=bytes)


def task(id: int, tenant: str = "", model: str = "m") -> AdapterKey:
    return AdapterKey(model=model, tenant=tenant, id=id)


class Model:
    """A plain model of the cache: adapters in order of use, and their uses."""

    def __init__(self) -> None:
        self.known: OrderedDict[int, Adapter] = OrderedDict()
        self.used: list[Adapter] = []

    def held(self) -> list[Adapter]:
        """Return all adapters that use memory, each once."""
        unique = {id(one): one for one in (*self.known.values(), *self.used)}
        return list(unique.values())

    def fits(self, wanted: int) -> bool:
        held = self.held()
        return len(held) < MOST and sum(one.bytes for one in held) + wanted <= MOST_BYTES

    def put(self, key: int, new: Adapter) -> Adapter | None:
        """Return `None` if there is no room."""
        known = self.known.get(key)
        if known is not None and known.digest == new.digest:
            self.known.move_to_end(key)
            return known
        idle = [k for k, one in self.known.items() if not any(one is user for user in self.used)]
        idle.sort(key=lambda k: k != key)
        before = OrderedDict(self.known)
        while not self.fits(new.bytes):
            if not idle:
                self.known = before
                return None
            del self.known[idle.pop(0)]
        self.known.pop(key, None)
        self.known[key] = new
        return new


@settings(max_examples=examples(200), deadline=None)
@given(EVENTS)
def test_the_least_recently_used_is_evicted_first_and_one_in_use_never(events: list[Event]) -> None:
    cache, model = LoraCache(most=MOST, most_bytes=MOST_BYTES), Model()

    for number, (what, key, size) in enumerate(events):
        match what:
            case "take":
                found = cache.take(task(key))
                assert found is model.known.get(key)
                if found is not None:
                    model.known.move_to_end(key)
                    model.used.append(found)
            case "put":
                new = adapter(size, number % 2)
                expected = model.put(key, new)
                if expected is None:
                    with pytest.raises(UpstreamBusy, match="in use"):
                        cache.put(task(key), new)
                else:
                    assert cache.put(task(key), new) is expected
                    model.used.append(expected)
            case "release":
                if model.used:
                    cache.release(model.used.pop(key % len(model.used)))

        assert cache.count == len(model.held()) <= MOST
        assert cache.bytes == sum(one.bytes for one in model.held()) <= MOST_BYTES


def test_task_ids_are_scoped_to_their_tenant_and_model() -> None:
    cache = LoraCache(most=8, most_bytes=100)
    mine = cache.put(task(1, "a", "m"), adapter(1))

    assert cache.take(task(1, "a", "m")) is mine
    assert cache.take(task(1, "b", "m")) is None
    assert cache.take(task(1, "a", "n")) is None


def test_new_weights_replace_a_tasks_old_ones_while_these_are_in_use() -> None:
    cache = LoraCache(most=8, most_bytes=10)
    old = cache.put(task(1), adapter(4))

    new = cache.put(task(1), adapter(5))

    assert cache.take(task(1)) is new
    assert cache.bytes == 9
    cache.release(old)
    assert cache.bytes == 5
