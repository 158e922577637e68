"""A simulated canary: traffic of units with their own rates, and every rule that can pause it.

The rules are the gateway's; their schedule is the one of docs/experiments-statistics.md.
"""

from collections.abc import Iterator, Mapping
from math import log

import numpy as np
from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Circuit
from strowger_gateway.gateway.experiments.guarding.circuit import (
    Sums,
    is_open,
    kept,
)
from strowger_gateway.gateway.statistics.effects import effect, lower_bound
from strowger_gateway.gateway.statistics.limit_test import enough, limit_test
from strowger_gateway.gateway.statistics.looks import alpha, passed
from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes
from strowger_gateway.gateway.statistics.randomization import UnitErrors, p_value
from strowger_gateway.gateway.statistics.verdict import HARM_LOOK
from strowger_gateway.gateway.statistics.weights import Sent, caps
from tests.gateway.statistics.fleet import Bools, Floats

ARMS = ("control", "treatment")
CHECKS_PER_LOOK = 3
CIRCUIT = Circuit()


class Traffic(Struct, frozen=True, kw_only=True):
    """treated, rates (of errors), sizes (relative): by unit."""

    treated: Bools
    rates: Floats
    sizes: Floats


class Stop(Struct, frozen=True, kw_only=True):
    """rule: circuit, assignment, score or bound. Requests of all arms, and of the treatment."""

    rule: str
    requests: int
    of_treatment: int


def traffic(
    rng: np.random.Generator,
    *,
    units: int,
    treated: int | float,
    control: float,
    treatment: float,
    likeness: float = 0.0,
    shape: float | None = None,
    concentrated: float | None = None,
) -> Traffic:
    """treated: a number of units, or a share. likeness: the correlation of a unit's requests.

    shape: of Pareto sizes; `None`: equal. concentrated: a few treated units have that much more
    errors, and others none, so that the mean is `treatment`.
    """
    if isinstance(treated, float):
        chosen: Bools = rng.random(units) < treated
    else:
        chosen = rng.permutation(np.arange(units)) < treated
    mean = np.where(chosen & (concentrated is None), treatment, control)
    rates = mean
    if likeness:
        size = 1 / likeness - 1
        rates = rng.beta(mean * size, (1 - mean) * size)
    if concentrated is not None:
        hit = chosen & (rng.random(units) < (treatment - control) / concentrated)
        rates = np.where(hit, np.minimum(rates + concentrated, 1.0), rates)
    sizes = np.ones(units) if shape is None else rng.pareto(shape, units) + 1
    return Traffic(treated=chosen, rates=rates, sizes=sizes / sizes.sum())


def both_cells(arms: list[tuple[Floats, Floats]]) -> list[Cell] | None:
    """Return the moments of both arms, with the gateway's caps; `None`: one has no unit yet."""
    active = [(count[count > 0], total[count > 0]) for count, total in arms]
    if not all(len(count) for count, _ in active):
        return None
    highest = caps(
        Sent(
            epoch=1,
            units=len(count),
            total=float(count.sum()),
            least=float(count.min()),
            greatest=sorted(count.tolist(), reverse=True),
        )
        for count, _ in active
    )
    return [moments(*arm, name, highest) for arm, name in zip(active, ARMS, strict=True)]


def moments(sent: Floats, total: Floats, variant: str, highest: Mapping[int, float]) -> Cell:
    means = total / sent
    n = np.minimum(sent, highest.get(1, np.inf))
    x = n * means
    return Cell(
        epoch=1,
        variant=variant,
        units=len(n),
        count=float(n.sum()),
        total=float(x.sum()),
        count2=float((n * n).sum()),
        total2=float((x * x).sum()),
        product=float((n * x).sum()),
        least=float(means.min()),
        most=float(means.max()),
        observations=float(sent.sum()),
        singles=float((n * n / sent).sum()),
        highest=float(n.max()),
    )


def stops(
    rng: np.random.Generator,
    of: Traffic,
    *,
    upto: int,
    worse_by: float = 0.02,
    circuit: Circuit | None = CIRCUIT,
) -> Iterator[Stop]:
    """Yield every pause, also by rules that come later; each rule once."""
    count: Floats = np.zeros(len(of.rates))
    total: Floats = np.zeros(len(of.rates))
    before, spent, past, seen = 0.0, 0, tuple[Sums, ...](), set[str]()
    checks = int(log(upto / 10) / log(1.5) * CHECKS_PER_LOOK) + 1
    for at in [float(10 * 1.5 ** (check / CHECKS_PER_LOOK)) for check in range(checks)]:
        more = rng.poisson((at - before) * of.sizes)
        before = at
        count = np.add(count, more)
        total = np.add(total, rng.binomial(more, of.rates))
        broken: list[str] = []
        arms: list[tuple[Floats, Floats]] = [
            (count[of.treated == arm], total[of.treated == arm]) for arm in (False, True)
        ]
        now = Sums(
            requests=int(arms[1][0].sum()),
            errors=int(arms[1][1].sum()),
            control_requests=int(arms[0][0].sum()),
            control_errors=int(arms[0][1].sum()),
        )
        if circuit is not None:
            if is_open(circuit, past, now) is not None:
                broken.append("circuit")
            past = kept(circuit, past, now)
        due = passed(int(count.sum()))
        cells = both_cells(arms)
        if cells is not None:
            if bound(cells) > worse_by:
                broken.append("bound")
            if due > spent:
                broken += look(arms, cells, worse_by, alpha(spent, due))
        spent = max(due, spent)
        for rule in broken:
            if rule not in seen:
                seen.add(rule)
                yield Stop(rule=rule, requests=int(count.sum()), of_treatment=now.requests)


def bound(cells: list[Cell]) -> float:
    found = effect(
        Outcomes(cells=tuple(cells)),
        control=ARMS[0],
        treatment=ARMS[1],
        look=HARM_LOOK,
        bounds=(0.0, 1.0),
    )
    return lower_bound(found, HARM_LOOK, sign=1)


def look(
    arms: list[tuple[Floats, Floats]], cells: list[Cell], worse_by: float, level: float
) -> list[str]:
    control, treatment = cells
    if enough(treatment, control):
        test = limit_test(treatment, control, worse_by=worse_by)
        return ["score"] if test is not None and test.exceeded(level) else []
    others, treated = (
        [
            UnitErrors(requests=int(n), errors=int(x))
            for n, x in zip(counts.tolist(), totals.tolist(), strict=True)
            if n
        ]
        for counts, totals in arms
    )
    p = p_value(treated, others, worse_by=worse_by, alpha=level, seed="a")
    return ["assignment"] if p <= level else []
