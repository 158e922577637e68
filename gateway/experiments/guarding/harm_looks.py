"""Test the harm limits on rates at a look, by the test that suits the units of the current epoch.

Looks use the current epoch alone: within an epoch the shares are fixed, so that every subset of the
units is equally likely to be treated. The bound of `verdict` uses all epochs since the last resume.
"""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.experiments.guarding.guard_rows import unit_errors
from strowger_gateway.gateway.statistics.limit_test import enough, limit_test
from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes
from strowger_gateway.gateway.statistics.randomization import UnitErrors, p_value
from strowger_gateway.gateway.statistics.verdict import HarmBound, ReportInput, harm_sentence
from strowger_gateway.gateway.storage.sql.base import Store


class EpochArms(Struct, frozen=True, kw_only=True):
    """Where a look looks: an experiment's epoch, one of its treatments and its control."""

    experiment: str
    epoch: int
    treatment: str
    control: str


class Units(Struct, frozen=True, kw_only=True):
    """The units of two arms in one epoch, with their failures of a yes/no metric."""

    treated: tuple[UnitErrors, ...]
    others: tuple[UnitErrors, ...]


def broken_limits(
    experiment: str, store: Store, case: ReportInput, *, epoch: int, alpha: float, look: int
) -> tuple[tuple[str, str, str], ...]:
    """Return treatment, metric and sentence of the harm limits that are broken at a look.

    alpha: of each harm limit and treatment. look: its number, for the seed of drawn samples.
    Blocks. Raises StoreUnavailable.
    """
    found: list[tuple[str, str, str]] = []
    for harm_limit in case.harm_limits:
        for treatment in case.treatments:
            arms = EpochArms(
                experiment=experiment, epoch=epoch, treatment=treatment, control=case.control
            )
            why = _broken(store, case, harm_limit, arms, alpha, f"{case.resumed}/{look}")
            if why:
                said = harm_sentence(harm_limit, treatment, case.control, broken=True)
                found.append((treatment, harm_limit.metric.name, f"{said} ({why})"))
    return tuple(found)


def looks_at(harm_limit: HarmBound) -> bool:
    """True if a harm limit is tested by looks."""
    return harm_limit.metric.is_rate and harm_limit.worse_by < 1


def cells_of(outcomes: Outcomes, arms: EpochArms) -> tuple[Cell, Cell] | None:
    """Return the cells of the treatment and control; `None` if one has no observation yet."""
    places = {cell.place: cell for cell in outcomes.cells}
    treatment = places.get((arms.epoch, arms.treatment))
    control = places.get((arms.epoch, arms.control))
    return None if treatment is None or control is None else (treatment, control)


def units_of(store: Store, harm_limit: HarmBound, arms: EpochArms) -> Units | None:
    """Return the units for `randomization`; `None`: too many, or values besides yes and no."""
    metric = harm_limit.metric
    names = arms.treatment, arms.control
    found = unit_errors(store.database, arms.experiment, metric.name, arms.epoch, names)
    if found is None or any(not total.is_integer() for rows in found.values() for _, total in rows):
        return None
    treated, others = (
        _failures(found[name], yes_is_bad=metric.better == "lower") for name in names
    )
    return Units(treated=treated, others=others)


def _failures(rows: Sequence[tuple[int, float]], *, yes_is_bad: bool) -> tuple[UnitErrors, ...]:
    return tuple(
        UnitErrors(requests=count, errors=int(total) if yes_is_bad else count - int(total))
        for count, total in rows
    )


def _broken(
    store: Store, case: ReportInput, harm_limit: HarmBound, arms: EpochArms, alpha: float, seed: str
) -> str:
    """Say how a harm limit is shown to be broken; "" if it is not."""
    metric = harm_limit.metric
    cells = cells_of(case.outcomes.get(metric.name, Outcomes()), arms)
    if cells is None or not looks_at(harm_limit):
        return ""
    if enough(*cells):
        test = limit_test(
            *cells, worse_by=harm_limit.worse_by, higher_is_better=metric.better == "higher"
        )
        broken = test is not None and test.exceeded(alpha)
        return f"{test.z:.2g} standard errors above" if test is not None and broken else ""
    units = units_of(store, harm_limit, arms)
    if units is None:
        return ""
    p = p_value(
        units.treated,
        units.others,
        worse_by=harm_limit.worse_by,
        alpha=alpha,
        seed=f"{arms.experiment}/{metric.name}/{arms.treatment}/{seed}",
    )
    number = len(units.treated) + len(units.others)
    return f"by the assignment of {number:,} units, p = {p:.1g}" if p <= alpha else ""
