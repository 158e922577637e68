"""The evidence of several gateways against one backend, beside one that sees every request."""

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.coordination.evidence_sum import EvidenceSum, Reported

GATEWAYS = (b"a", b"b", b"c", b"d")
RULE = BreakerRule(min_requests=12)
HALF, WHOLE = 6.0, 12.0
NUMBERS = st.integers(-(2**63), 2**64 - 1)
SMALL = st.integers(0, 6)

Batch = tuple[tuple[int, int], ...]
"""Failures and successes of each gateway between two notices."""

batches = st.lists(st.tuples(*[st.tuples(SMALL, SMALL)] * len(GATEWAYS)), max_size=12)
rates = st.sampled_from([0.2, 0.5, 0.9, 1.0])


class Counts(Struct, kw_only=True):
    failed: int = 0
    succeeded: int = 0


def read(
    evidence: EvidenceSum, history: Sequence[Batch], lies: Sequence[Reported] = ()
) -> EvidenceSum:
    """Read what the gateways report, batch by batch. lies: of one more gateway."""
    counts = {name: Counts() for name in GATEWAYS}
    for turn, batch in enumerate(history):
        for one, (failed, succeeded) in zip(counts.values(), batch, strict=True):
            one.failed += failed
            one.succeeded += succeeded
        reports = {
            name: Reported(failed=one.failed, succeeded=one.succeeded)
            for name, one in counts.items()
            if one.failed or one.succeeded
        }
        if turn < len(lies):
            reports[b"liar"] = lies[turn]
        evidence.read(reports, float(turn))
    return evidence


def page(outcomes: Sequence[bool], rate: float) -> float:
    """Page's sum of a gateway that sees these outcomes one after the other. True: a failure."""
    value = 0.0
    for failed in outcomes:
        if failed:
            value += 1.0
        else:
            value = max(0.0, value - rate / (1.0 - rate)) if rate < 1.0 else 0.0
    return value


def in_some_order(history: Sequence[Batch], seed: int) -> list[bool]:
    """Every outcome, those of one batch in any order."""
    draws, found = random.Random(seed), list[bool]()
    for batch in history:
        one = [failed for fails, wins in batch for failed in [True] * fails + [False] * wins]
        draws.shuffle(one)
        found += one
    return found


@given(batches, rates, st.integers(0, 2**32))
def test_the_sum_never_exceeds_that_of_one_gateway_with_all_the_requests(
    history: list[Batch], rate: float, seed: int
) -> None:
    evidence = read(EvidenceSum(BreakerRule(failure_rate=rate)), history)

    assert evidence.value <= page(in_some_order(history, seed), rate) + 1e-6


@given(batches, rates)
def test_failures_one_by_one_give_the_sum_of_one_gateway(history: list[Batch], rate: float) -> None:
    """Without the doubt about the order nothing is lost."""
    single = [
        tuple((int(failed), int(not failed)) if name == turn else (0, 0) for name in range(4))
        for turn, failed in enumerate(in_some_order(history, 1))
        for turn in [turn % 4]
    ]

    evidence = read(EvidenceSum(BreakerRule(failure_rate=rate)), single)

    assert abs(evidence.value - page([sum(f for f, _ in one) > 0 for one in single], rate)) < 1e-6


@given(batches, st.integers(0, 11), st.integers(0, 3))
def test_a_failure_more_raises_the_sum_and_a_success_more_lowers_it(
    history: list[Batch], turn: int, gateway: int
) -> None:
    def with_one_more(failed: int, succeeded: int) -> list[Batch]:
        changed = [list(batch) for batch in history]
        if changed:
            at = changed[turn % len(changed)]
            at[gateway] = (at[gateway][0] + failed, at[gateway][1] + succeeded)
        return [tuple(batch) for batch in changed]

    value = read(EvidenceSum(RULE), history).value

    assert read(EvidenceSum(RULE), with_one_more(1, 0)).value >= value
    assert read(EvidenceSum(RULE), with_one_more(0, 1)).value <= value


@given(
    batches,
    st.lists(st.builds(Reported, failed=NUMBERS, succeeded=NUMBERS, recent=NUMBERS), min_size=12),
    st.integers(0, 2**32),
)
def test_whatever_one_gateway_reports_half_of_the_evidence_is_that_of_others(
    history: list[Batch], lies: list[Reported], seed: int
) -> None:
    evidence = read(EvidenceSum(RULE), history, lies)
    honest = page(in_some_order(history, seed), RULE.failure_rate)

    assert evidence.without_any <= honest + 1e-6
    if honest < HALF:
        assert not evidence.suffices


@given(batches, st.integers(0, 2**32))
def test_what_a_gateway_has_contributed_goes_with_it(history: list[Batch], seed: int) -> None:
    evidence = read(EvidenceSum(RULE), history)
    counts = [(sum(b[n][0] for b in history), sum(b[n][1] for b in history)) for n in range(4)]
    left = {
        name: Reported(failed=failed, succeeded=succeeded)
        for name, (failed, succeeded) in list(zip(GATEWAYS, counts, strict=True))[1:]
    }

    evidence.read(left, float(len(history)))

    others = [((0, 0), *batch[1:]) for batch in history]
    assert evidence.value <= page(in_some_order(others, seed), RULE.failure_rate) + 1e-6


def test_one_failure_of_each_of_many_gateways_opens_the_circuit() -> None:
    evidence = EvidenceSum(RULE)
    reports = {bytes([number]): Reported(failed=1, succeeded=0) for number in range(11)}
    evidence.read(reports, 0.0)
    before = evidence.suffices

    evidence.read({**reports, b"last": Reported(failed=1, succeeded=0)}, 0.2)

    assert (before, evidence.suffices, evidence.seen_by) == (False, True, 12)
    assert evidence.value == WHOLE


def test_failures_of_one_gateway_alone_never_do() -> None:
    evidence = EvidenceSum(RULE)

    evidence.read({b"a": Reported(failed=1000, succeeded=0)}, 0.0)

    assert not evidence.suffices
    assert not evidence.suspicious


def test_evidence_expires_when_no_failure_follows_within_the_window() -> None:
    evidence = EvidenceSum(RULE)
    reports = {name: Reported(failed=2, succeeded=0) for name in GATEWAYS}
    evidence.read(reports, 0.0)

    evidence.read(reports, RULE.window_s)
    kept = evidence.value
    evidence.read(reports, RULE.window_s + 0.1)

    assert (kept, evidence.value, evidence.seen_by) == (8.0, 0.0, 0)


def test_a_busy_backend_needs_a_share_of_all_its_requests() -> None:
    evidence = EvidenceSum(RULE)

    evidence.read({name: Reported(failed=4, succeeded=0, recent=1000) for name in GATEWAYS}, 0.0)

    assert evidence.needed == 80.0
    assert not evidence.suffices
