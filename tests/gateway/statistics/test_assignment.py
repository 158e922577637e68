"""The same unit gets the same variant everywhere, and a ramp moves as few units as possible."""

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, localcontext
from hashlib import blake2b
from itertools import pairwise
from math import inf, nan, sqrt
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.assignment import KEY, Assignment, WeightedArm
from tests.examples import examples

ROOT = Path(__file__).parents[3]
NAMES = st.text(max_size=8)
ARMS = st.dictionaries(NAMES, st.integers(0, 100), min_size=1, max_size=6).filter(
    lambda weights: any(weights.values())
)
UNITS = [f"user-{number}" for number in range(200)]
GOLDEN = {
    "": "control",
    "alice": "treatment",
    "bob": "control",
    "user-1": "control",
    "user-2": "treatment",
    "ünï": "treatment",
    "\ud800": "treatment",
    "a" * 300: "treatment",
}
"""Of the experiment "tiny-vs-mini", 50 to 50. A change here moves users of running experiments."""


def assignment(experiment: str, weights: Mapping[str, float]) -> Assignment:
    return Assignment(
        experiment, [WeightedArm(name=name, weight=weights[name]) for name in weights]
    )


def drawn(experiment: str, variant: str, unit: str) -> int:
    """The 64 bits of one draw, written from the description rather than from the code."""
    state = blake2b(digest_size=8, key=KEY)
    for field in (experiment, variant, unit):
        data = field.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return int(state.hexdigest(), 16)


def slow_variant(experiment: str, weights: Mapping[str, int], unit: str) -> str:
    """The variant by the formula, with thirty digits instead of a double."""
    with localcontext() as context:
        context.prec = 30
        scores: dict[str, Decimal] = {}
        for name, weight in weights.items():
            if weight:
                top = drawn(experiment, name, unit) >> 11
                h = Decimal(top or Decimal("0.5")) / 2**53
                scores[name] = -h.ln() / weight
        return min(sorted(scores), key=lambda name: scores[name])


@pytest.mark.parametrize("unit", GOLDEN)
def test_a_unit_keeps_its_variant_from_release_to_release(unit: str) -> None:
    arms = assignment("tiny-vs-mini", {"control": 50, "treatment": 50})

    assert arms.variant(unit) == GOLDEN[unit]


@settings(max_examples=examples(25), deadline=None)
@given(experiment=NAMES, weights=ARMS, unit=st.text(max_size=20))
def test_the_variant_is_the_one_that_the_formula_says(
    experiment: str, weights: dict[str, int], unit: str
) -> None:
    arms = assignment(experiment, weights)

    assert arms.variant(unit) == slow_variant(experiment, weights, unit)


@settings(max_examples=examples(40), deadline=None)
@given(weights=ARMS, data=st.data())
def test_growing_a_weight_moves_units_only_into_it(
    weights: dict[str, int], data: st.DataObject
) -> None:
    grown = data.draw(st.sampled_from(sorted(weights)))
    more = weights | {grown: weights[grown] + data.draw(st.integers(1, 1000))}
    before, after = assignment("ramp", weights), assignment("ramp", more)

    moves = {(before.variant(unit), after.variant(unit)) for unit in UNITS}

    assert all(old == new or new == grown for old, new in moves)


@settings(max_examples=examples(40), deadline=None)
@given(weights=ARMS, data=st.data())
def test_removing_a_variant_moves_only_its_units(
    weights: dict[str, int], data: st.DataObject
) -> None:
    removed = data.draw(st.sampled_from(sorted(weights)))
    rest = {name: weight for name, weight in weights.items() if name != removed}
    assume(any(rest.values()))
    before, after = assignment("fewer", weights), assignment("fewer", rest)

    moves = {(before.variant(unit), after.variant(unit)) for unit in UNITS}

    assert all(old in (new, removed) for old, new in moves)


@settings(max_examples=examples(20), deadline=None)
@given(weights=ARMS, data=st.data())
def test_the_order_of_the_variants_does_not_matter(
    weights: dict[str, int], data: st.DataObject
) -> None:
    shuffled = {name: weights[name] for name in data.draw(st.permutations(sorted(weights)))}
    one, other = assignment("order", weights), assignment("order", shuffled)

    assert [one.variant(unit) for unit in UNITS] == [other.variant(unit) for unit in UNITS]


def test_a_ramp_of_one_of_three_arms_moves_no_unit_between_the_other_two() -> None:
    steps = [assignment("three", {"a": 10, "b": 10, "c": weight}) for weight in (1, 5, 20, 80)]
    paths = [[step.variant(f"user-{number}") for step in steps] for number in range(5_000)]

    moved = {(old, new) for path in paths for old, new in pairwise(path)}

    assert moved == {("a", "a"), ("b", "b"), ("c", "c"), ("a", "c"), ("b", "c")}


def test_three_arms_whose_weights_keep_their_sum_exchange_users() -> None:
    """The case that docs/experiments.md warns about."""
    before = assignment("e", {"control": 90, "a": 5, "b": 5})
    after = assignment("e", {"control": 70, "a": 25, "b": 5})
    alone = assignment("e", {"control": 90, "a": 32, "b": 5})
    units = [f"user-{number}" for number in range(8_000)]

    moves = {(before.variant(unit), after.variant(unit)) for unit in units}
    moved = {(before.variant(unit), alone.variant(unit)) for unit in units}

    assert ("control", "b") in moves
    assert {to for was, to in moved if was != to} == {"a"}


def test_shares_are_within_three_sigma_of_the_weights() -> None:
    weights = {"a": 1, "b": 3, "c": 6, "nobody": 0}
    units, total = 30_000, 10
    arms = assignment("shares", weights)

    counts = Counter(arms.variant(f"user-{number}") for number in range(units))

    assert counts["nobody"] == 0
    for name, weight in weights.items():
        share = weight / total
        assert abs(counts[name] - units * share) <= 3 * sqrt(units * share * (1 - share))


def test_two_experiments_split_the_same_units_independently() -> None:
    one = assignment("one", {"a": 50, "b": 50})
    two = assignment("two", {"a": 50, "b": 50})

    both = Counter((one.variant(f"u{n}"), two.variant(f"u{n}")) for n in range(10_000))

    assert len(both) == 4
    assert all(abs(count - 2_500) <= 4 * sqrt(10_000 * 0.25 * 0.75) for count in both.values())


def test_no_two_triples_are_the_same_by_concatenation() -> None:
    words = ["", "a", "aa", "b", "ab", "\x00", "\x00a"]
    triples = [(x, y, z) for x in words for y in words for z in words]

    assert len({drawn(*triple) for triple in triples}) == len(triples)
    alike = [
        [assignment("ab", {"c": 1, "d": 1}).variant(unit) for unit in UNITS],
        [assignment("a", {"bc": 1, "bd": 1}).variant(unit).removeprefix("b") for unit in UNITS],
    ]
    assert alike[0] != alike[1]


def test_another_process_assigns_equally_and_so_does_a_restart() -> None:
    program = (
        "from strowger_gateway.gateway.statistics.assignment import WeightedArm as Arm, "
        "Assignment;"
        "arms = Assignment('p', [Arm(name='a', weight=1), Arm(name='b', weight=2)]);"
        "print(''.join(arms.variant(f'user-{n}') for n in range(2000)))"
    )
    here = assignment("p", {"b": 2, "a": 1})

    seen = [
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout.strip()
        for seed in ("1", "2")
    ]

    assert seen == ["".join(here.variant(f"user-{n}") for n in range(2_000))] * 2


@pytest.mark.parametrize(
    ("arms", "says"),
    [
        ([("a", 1), ("a", 2)], "two variants have the same name"),
        ([("a", -1)], "'a': weight is -1"),
        ([("a", inf)], "'a': weight is inf"),
        ([("a", nan)], "'a': weight is nan"),
        ([("a", 0), ("b", 0)], "no variant has a weight above 0"),
        ([], "no variant has a weight above 0"),
    ],
)
def test_arms_that_cannot_share_are_refused(arms: list[tuple[str, float]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Assignment("x", [WeightedArm(name=name, weight=weight) for name, weight in arms])
