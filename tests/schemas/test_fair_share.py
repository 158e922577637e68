"""A scarce thing is shared by keys: bounds, turns, and that every item is served in the end."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strowger_gateway.schemas.fair_queue import FairQueue, Waiting
from strowger_gateway.schemas.fair_share import FairShare
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder, Holdings

A, B, C = Holder("a"), Holder("b"), Holder("c")


def order(shares: FairShare[str], held: list[Holder]) -> list[str]:
    """Return the items in the order in which they are served, one at a time."""
    served: list[str] = []
    while held:
        shares.give_back(held.pop(0))
        served += shares.serve()
    return served


def test_one_key_never_holds_the_last_eighth_where_several_exist() -> None:
    shares = FairShare[str](512, several=True)

    assert sum(shares.take(A) for _ in range(512)) == 448
    assert all(shares.take(B) for _ in range(64))
    assert not shares.take(C)


def test_the_only_key_and_clients_without_one_may_hold_everything() -> None:
    alone, several = FairShare[str](8), FairShare[str](8, several=True)

    assert all(alone.take(A) for _ in range(8))
    assert all(several.take(ANONYMOUS) for _ in range(8))


@pytest.mark.parametrize("total", range(1, 9))
def test_a_small_pool_leaves_one_place_and_lets_each_key_have_one(total: int) -> None:
    holdings = Holdings(total, several=True)

    assert holdings.most(A) == max(1, total - 1)


def test_keys_take_turns_and_each_keeps_its_own_order() -> None:
    shares = FairShare[str](1)
    assert shares.take(A)
    for item in ("a1", "a2", "a3"):
        shares.wait(item, A)
    shares.wait("b1", B)
    shares.wait("c1", C)
    shares.wait("c2", C)

    served = list[str]()
    holders = {"a": A, "b": B, "c": C}
    holder = A
    while len(served) < 6:
        shares.give_back(holder)
        served += shares.serve()
        holder = holders[served[-1][0]]

    assert served == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_team_of_many_keys_counts_like_a_team_of_one() -> None:
    shares = FairShare[str](1)
    many = [Holder(f"m{number}", "many") for number in range(10)]
    few = Holder("f", "few")
    assert shares.take(few)
    for holder in many:
        shares.wait("many", holder)
    for _ in range(3):
        shares.wait("few", few)

    served = list[str]()
    current = few
    while len(served) < 6:
        shares.give_back(current)
        for item in shares.serve():
            served.append(item)
            current = few if item == "few" else many[served.count("many") - 1]

    assert served == ["many", "few"] * 3


def test_the_key_that_holds_least_comes_first() -> None:
    shares = FairShare[str](4)
    held = [A, A, A, B]
    for holder in held:
        assert shares.take(holder)
    shares.wait("a", A)
    shares.wait("b", B)

    shares.give_back(A)

    assert list(shares.serve()) == ["b"]


def test_a_more_urgent_item_comes_first_but_never_over_its_keys_bound() -> None:
    shares = FairShare[str](8, several=True)
    for _ in range(7):
        assert shares.take(A)
    assert shares.take(B)
    shares.wait("urgent", A, level=1)
    shares.wait("later", C, level=5)
    shares.wait("sooner", B, level=3)

    shares.give_back(B)
    assert list(shares.serve()) == ["sooner"]
    shares.give_back(A)
    assert list(shares.serve()) == ["urgent"]


def test_a_key_at_its_bound_delays_no_other() -> None:
    shares = FairShare[str](8, several=True)
    for _ in range(7):
        assert shares.take(A)
    for _ in range(100):
        shares.wait("a", A)
    assert list(shares.serve()) == []

    assert shares.take(B)


def test_a_large_item_is_passed_with_the_reserve_only_and_then_served() -> None:
    shares = FairShare[str](16, several=True)
    assert shares.take(A, 8)
    shares.wait("large", B, 12)
    assert list(shares.serve()) == []

    assert shares.take(C, 2)
    assert not shares.take(C, 1), "it would delay the large item further"
    shares.wait("small", C, 1)
    assert list(shares.serve()) == []
    shares.give_back(C, 2)
    assert list(shares.serve()) == ["small"]
    shares.give_back(A, 8)
    assert list(shares.serve()) == ["large"]


def test_a_more_urgent_item_does_not_wait_for_a_large_one() -> None:
    shares = FairShare[str](16, several=True)
    assert shares.take(A, 8)
    shares.wait("large", B, 12, level=5)
    assert list(shares.serve()) == []

    shares.wait("urgent", C, 8, level=1)

    assert list(shares.serve()) == ["urgent"]


def test_a_large_item_that_gives_up_blocks_nothing() -> None:
    shares = FairShare[str](8)
    assert shares.take(A, 4)
    waiting = shares.wait("large", B, 8)
    shares.wait("small", C, 4)
    assert list(shares.serve()) == []

    shares.withdraw(waiting)

    assert list(shares.serve()) == ["small"]


def test_the_largest_holder_is_known() -> None:
    holdings = Holdings(8)
    assert holdings.largest() is None
    holdings.hold(A)
    holdings.hold(B, 3)

    assert holdings.largest() == "b"


_holders = st.sampled_from(
    [Holder("a"), Holder("b", "t"), Holder("c", "t"), Holder("d", "u"), ANONYMOUS]
)


def test_keys_that_come_back_at_once_do_not_starve_one_with_a_queue() -> None:
    """Their lines are new each time, which must not count as never having been served."""
    shares = FairShare[Holder](1)
    assert shares.take(B)
    for _ in range(6):
        shares.wait(A, A)
    shares.wait(C, C)
    holder, served = B, list[Holder]()
    for _ in range(9):
        shares.give_back(holder)
        (following,) = shares.serve()
        served.append(following)
        if holder != A:
            shares.wait(holder, holder)
        holder = following

    assert served.count(A) >= 3


class Sharing(RuleBasedStateMachine):
    """Any order of calls keeps the bounds, and serves every item once places come back."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = FairShare[int](16, several=True)
        self.held: list[tuple[Holder, int]] = []
        self.waiting: dict[int, Waiting[int]] = {}
        self.number = 0

    def serve(self) -> None:
        for item in self.shares.serve():
            one = self.waiting.pop(item)
            self.held.append((one.holder, one.amount))

    @rule(holder=_holders, amount=st.integers(1, 16), level=st.integers(1, 3))
    def arrive(self, holder: Holder, amount: int, level: int) -> None:
        amount = self.shares.bounded(holder, amount)
        if self.shares.take(holder, amount):
            self.held.append((holder, amount))
            return
        self.number += 1
        self.waiting[self.number] = self.shares.wait(self.number, holder, amount, level)
        self.serve()

    @precondition(lambda self: bool(self.held))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        holder, amount = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.shares.give_back(holder, amount)
        self.serve()

    @precondition(lambda self: bool(self.waiting))
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.waiting)))
        self.shares.withdraw(self.waiting.pop(number))
        self.serve()

    @invariant()
    def nothing_is_held_twice_or_lost(self) -> None:
        holdings = self.shares.holdings
        by_key = Counter[str]()
        for holder, amount in self.held:
            by_key[holder.key] += amount
        assert holdings.used == sum(by_key.values()) <= holdings.total
        assert len(self.shares.queue) == len(self.waiting)
        for holder, _ in self.held:
            assert holdings.by_key(holder) == by_key[holder.key] <= holdings.most(holder)

    @invariant()
    def nobody_waits_for_free_places_unless_a_large_item_does(self) -> None:
        holdings = self.shares.holdings
        first: dict[tuple[str, int], Waiting[int]] = {}
        for number in sorted(self.waiting):
            one = self.waiting[number]
            first.setdefault((one.holder.key, one.level), one)
        within = [one for one in first.values() if holdings.within_bound(one.holder, one.amount)]
        assert not within or any(one.amount > holdings.free for one in within)

    def teardown(self) -> None:
        """Every item is served while others leave, however large it is."""
        for _ in range(1 + len(self.held) + len(self.waiting)):
            if not self.held:
                break
            holder, amount = self.held.pop(0)
            self.shares.give_back(holder, amount)
            self.serve()
        assert not self.waiting
        for holder, amount in self.held:
            self.shares.give_back(holder, amount)
        assert self.shares.holdings.used == 0
        assert self.shares.holdings.largest() is None


TestSharing = Sharing.TestCase


@given(st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_a_stream_of_small_items_never_starves_a_large_one(sizes: list[int]) -> None:
    shares = FairShare[str](64, several=True)
    held = list[tuple[Holder, int]]()
    for _ in range(56):
        assert shares.take(A)
        held.append((A, 1))
    shares.wait("large", B, 56)
    served = list(shares.serve())
    for number in range(200):
        if "large" in served:
            break
        size = sizes[number % len(sizes)]
        if shares.take(C, size):
            held.append((C, size))
        holder, amount = held.pop(0)
        shares.give_back(holder, amount)
        served += shares.serve()

    assert served == ["large"]


def test_a_key_that_replaces_what_it_gives_back_does_not_starve_a_large_item() -> None:
    """What it gives back may be what it held before: that has to become free for the large one."""
    shares = FairShare[str](100, several=True)
    assert all(shares.take(A) for _ in range(50))
    shares.wait("large", B, 60)
    served = list(shares.serve())
    for _ in range(200):
        while shares.take(A):
            pass
        shares.give_back(A)
        served += shares.serve()
        if served:
            break

    assert served == ["large"]


def test_a_key_that_passed_with_all_it_could_leaves_room_for_others_to_pass() -> None:
    shares = FairShare[str](128, several=True)
    assert shares.take(A, 64)
    shares.wait("large", B, 112)
    assert list(shares.serve()) == []

    passed = sum(shares.take(A) for _ in range(100))
    shares.give_back(A, passed)

    assert 0 < passed < 16
    assert shares.take(C, 4)
    shares.give_back(C, 4)
    assert shares.take(C, 4), "of what a new key gives back it is known that it passed"


@given(st.lists(st.tuples(_holders, st.integers(1, 2), st.sampled_from("wwsg")), max_size=80))
def test_the_first_is_always_one_of_the_least(steps: list[tuple[Holder, int, str]]) -> None:
    """By level, by what the team holds, by when it was served or came, and then the key."""
    queue, load, served = FairQueue[int](), Holdings(1000), 0
    waiting, held = list[Waiting[int]](), list[Holder]()
    turns = dict[tuple[int, object], int]()

    def rank(one: Waiting[int]) -> tuple[float, ...]:
        holder, level = one.holder, one.level
        team = load.by_group(holder), turns[level, holder.group]
        return level, *team, load.by_key(holder), turns[level, holder.key]

    for number, (holder, level, step) in enumerate(steps):
        if step == "w":
            for name in (holder.group, holder.key):
                turns.setdefault((level, name), served)
            waiting.append(Waiting(number, holder, level=level))
            queue.add(waiting[-1])
        elif step == "g" and held:
            load.give_back(held.pop(0))
        elif step == "s" and (chosen := queue.first(load)) is not None:
            assert rank(chosen)[:3] == min(map(rank, waiting))[:3]
            mates = [one for one in waiting if one.holder.group == chosen.holder.group]
            assert rank(chosen) == min(rank(one) for one in mates if one.level == chosen.level)
            queue.served(chosen)
            served += 1
            load.hold(chosen.holder)
            held.append(chosen.holder)
            waiting.remove(chosen)
            left = [one.holder for one in waiting if one.level == chosen.level]
            for name, names in (
                (chosen.holder.group, [one.group for one in left]),
                (chosen.holder.key, [one.key for one in left]),
            ):
                del turns[chosen.level, name]
                if name in names:
                    turns[chosen.level, name] = served
        assert bool(waiting) is bool(len(queue))
