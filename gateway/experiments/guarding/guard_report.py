"""Say what watches the variants of an experiment now, what it needs, and what it can see."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Circuit, Experiment
from strowger_gateway.gateway.experiments.guarding.guard_rows import state_of
from strowger_gateway.gateway.experiments.guarding.harm_looks import (
    EpochArms,
    cells_of,
    looks_at,
    units_of,
)
from strowger_gateway.gateway.statistics import normal
from strowger_gateway.gateway.statistics.effects import effect, lower_bound
from strowger_gateway.gateway.statistics.formatting import amount
from strowger_gateway.gateway.statistics.limit_test import FEWEST_UNITS, enough, limit_test
from strowger_gateway.gateway.statistics.looks import alpha
from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes
from strowger_gateway.gateway.statistics.randomization import fewest_units, smallest_seen
from strowger_gateway.gateway.statistics.verdict import (
    HARM_LOOK_ALONE,
    HarmBound,
    ReportInput,
)
from strowger_gateway.gateway.storage.sql.base import Epoch, Pause, Store

POWER = 0.8
"""Probability with which a difference of `GuardReport.smallest` is found by a test."""

Rule = Literal["circuit", "assignment", "score", "bound"]


class GuardReport(Struct, frozen=True, kw_only=True):
    """What watches one variant now, for one harm limit or as a circuit.

    metric:   "" for a circuit. rule: of docs/experiments-statistics.md.
    units:    active units of the variant and control in this epoch; for a circuit its requests.
    needed:   as many are needed, of both together; for `bound` and `score` as many of each.
    smallest: the smallest harm that it can see with these units, in the unit of `worse_by`; for
              `assignment` and `circuit` the share of requests that fail. `None`: none yet.
    looks:    spent since the last resume; the next one has the level that `smallest` is for. 0 for
              `bound` and `circuit`.
    """

    variant: str
    metric: str
    rule: Rule
    units: int
    needed: int
    smallest: float | None
    sentence: str
    looks: int = 0


def stop_of(store: Store, experiment: str, pause: Pause | None) -> str:
    """Return why a circuit or a look has paused an experiment; "" if none has."""
    if pause is None or state_of(store.database, experiment).stopped != pause.reason:
        return ""
    return pause.reason


def guards_of(
    experiment: Experiment, store: Store, case: ReportInput, epochs: Sequence[Epoch]
) -> tuple[GuardReport, ...]:
    """Return what watches an experiment; nothing while it is paused, or has not started.

    Blocks. Raises StoreUnavailable.
    """
    if not epochs or epochs[-1].paused:
        return ()
    return tuple(_guards(experiment, store, case, epochs[-1].number))


def _guards(
    experiment: Experiment, store: Store, case: ReportInput, epoch: int
) -> Iterator[GuardReport]:
    looks = state_of(store.database, experiment.name).looks
    weights = {variant.name: variant.weight for variant in experiment.variants}
    for treatment in case.treatments:
        if not weights[treatment]:
            continue  # it gets no requests
        arms = EpochArms(
            experiment=experiment.name, epoch=epoch, treatment=treatment, control=case.control
        )
        if experiment.circuit_rule is not None:
            yield _circuit(experiment.circuit_rule, case, arms)
        for harm_limit in case.harm_limits:
            cells = cells_of(case.outcomes.get(harm_limit.metric.name, Outcomes()), arms)
            if not looks_at(harm_limit):
                yield _bound(harm_limit, case, treatment, cells)
            elif cells is not None and enough(*cells):
                yield _score(harm_limit, treatment, cells, looks)
            else:
                both = weights[treatment] + weights[case.control]
                share = weights[treatment] / both if both else 0.0
                yield _assignment(harm_limit, store, arms, share, looks)


def _circuit(circuit: Circuit, case: ReportInput, arms: EpochArms) -> GuardReport:
    cells = cells_of(case.outcomes.get("error", Outcomes()), arms)
    requests = 0 if cells is None else round(cells[0].observed)
    return GuardReport(
        variant=arms.treatment,
        metric="",
        rule="circuit",
        units=requests,
        needed=circuit.requests,
        smallest=circuit.share if requests >= circuit.requests else None,
        sentence=f"{arms.treatment} is watched by its circuit, which opens when"
        f" {100 * circuit.share:g} % of its last {circuit.requests:,} requests fail and"
        f" {arms.control}'s do not",
    )


def _bound(
    harm_limit: HarmBound, case: ReportInput, treatment: str, cells: tuple[Cell, Cell] | None
) -> GuardReport:
    metric = harm_limit.metric
    found = effect(
        case.outcomes.get(metric.name, Outcomes()).after(case.resumed),
        control=case.control,
        treatment=treatment,
        look=HARM_LOOK_ALONE,
        bounds=metric.bounds,
    )
    seen = None
    if found.known:
        reach = found.difference - lower_bound(found, HARM_LOOK_ALONE, sign=1)
        seen = harm_limit.on_scale + reach + normal.inv_cdf(POWER) * found.error
    return GuardReport(
        variant=treatment,
        metric=metric.name,
        rule="bound",
        units=_units(cells),
        needed=FEWEST_UNITS,
        smallest=None if seen is None else metric.effect(seen),
        sentence=f"{treatment} is watched in {metric.name} by a bound that needs"
        f" {FEWEST_UNITS} units of each variant; {_sees(harm_limit, seen)}",
    )


def _score(
    harm_limit: HarmBound, treatment: str, cells: tuple[Cell, Cell], looks: int
) -> GuardReport:
    metric, level = harm_limit.metric, alpha(looks, looks + 1)
    better = metric.better == "higher"
    test = limit_test(*cells, worse_by=harm_limit.worse_by, higher_is_better=better)
    seen = None
    if test is not None:
        far = (test.threshold(level) + normal.inv_cdf(POWER)) * test.error
        seen = harm_limit.worse_by + far if harm_limit.worse_by + far < 1 else None
    return GuardReport(
        variant=treatment,
        metric=metric.name,
        rule="score",
        units=_units(cells),
        needed=FEWEST_UNITS,
        smallest=seen,
        looks=looks,
        sentence=f"{treatment} is watched in {metric.name} by a test of {_units(cells):,} units;"
        f" {_sees(harm_limit, seen)}",
    )


def _assignment(
    harm_limit: HarmBound, store: Store, arms: EpochArms, share: float, looks: int
) -> GuardReport:
    """share: of the treatment, of its weight and control's; 0 or 1: none is assigned to one."""
    metric, level = harm_limit.metric, alpha(looks, looks + 1)
    units = units_of(store, harm_limit, arms)
    number = 0 if units is None else len(units.treated) + len(units.others)
    seen = None
    if units is not None:
        seen = smallest_seen(units.treated, units.others, worse_by=harm_limit.worse_by, alpha=level)
    needed = fewest_units(share, level) if 0 < share < 1 else 0
    if not needed:
        sentence = (
            f"{arms.treatment} is not watched in {metric.name}: {arms.control} has no weight, so"
            " there is nothing to compare with"
        )
        return GuardReport(
            variant=arms.treatment,
            metric=metric.name,
            rule="assignment",
            units=number,
            needed=0,
            smallest=None,
            looks=looks,
            sentence=sentence,
        )
    sees = (
        "nothing can be seen yet"
        if seen is None
        else f"it sees when {100 * seen:g} % of the requests of each of its units fail"
        if metric.better == "lower"
        else f"it sees when {100 * seen:g} % of the requests of each of its units have no vote"
        if metric.name == "vote_rate"
        else f"it sees when {100 * seen:g} % of the values of each of its units are bad"
    )
    return GuardReport(
        variant=arms.treatment,
        metric=metric.name,
        rule="assignment",
        units=number,
        needed=needed,
        smallest=seen,
        looks=looks,
        sentence=f"{arms.treatment} is watched in {metric.name} by the assignment of {number:,}"
        f" units, of about {needed:,} that it needs; {sees}",
    )


def _sees(harm_limit: HarmBound, seen: float | None) -> str:
    if seen is None:
        return "nothing can be seen yet"
    return f"it finds a harm of {amount(harm_limit.metric, seen)} in {100 * POWER:g} % of cases"


def _units(cells: tuple[Cell, Cell] | None) -> int:
    return 0 if cells is None else cells[0].units + cells[1].units
