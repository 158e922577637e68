"""The adjustment in a report: what was adjusted by what, and what it changed."""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

from msgspec import Struct

from strowger_gateway.gateway.experiments.adjustment.results import Adjustment
from strowger_gateway.gateway.statistics.covariate_balance import Imbalance
from strowger_gateway.gateway.statistics.effects import Effect
from strowger_gateway.gateway.statistics.formatting import change, figure
from strowger_gateway.gateway.statistics.metrics import LOG_PROMPT_TOKENS, PROMPT_TOKENS, Metric
from strowger_gateway.gateway.statistics.verdict import ReportInput
from strowger_gateway.gateway.storage.sql.experiments.adjusted_queries import PAST

_TOKENS = Metric(name=PROMPT_TOKENS)
_LOG_TOKENS = Metric(name=LOG_PROMPT_TOKENS, scale="log")


class CovariateReport(Struct, frozen=True, kw_only=True):
    """One covariate of one metric.

    theta:    change of the metric, on its own scale, per unit of the covariate; 0: it has no part.
    missing:  the same of units that have a value against those that do not; 0: it has no part.
    mean, share: what is subtracted from the value, and from the indicator.
    coverage: share of the units with a value, 0 to 1.
    """

    name: str
    theta: float
    missing: float
    mean: float
    share: float
    coverage: float


class AdjustmentReport(Struct, frozen=True, kw_only=True):
    """The adjustment of one metric.

    used:      differences and intervals are adjusted.
    moved:     by how much on average (root of the mean square) a unit's mean is; the bounds of the
               metric lie as much farther apart.
    sentences: what was adjusted and what it changed, or why nothing was.
    """

    used: bool
    covariates: tuple[CovariateReport, ...]
    moved: float
    sentences: tuple[str, ...]


class Unadjusted(Struct, frozen=True, kw_only=True):
    """The difference of a variant as it would be without the adjustment; fields as of Measured.

    explained: the share of the difference's variance that the adjustment takes off, at most 1;
               below 0 it adds some. `None` until there is an interval.
    """

    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    explained: float | None


def unadjusted(
    metric: Metric, case: ReportInput, treatment: str, found: Effect
) -> Unadjusted | None:
    """Return `None` if the metric is not adjusted. found: with the adjustment."""
    if metric.name not in case.adjusted:
        return None
    raw = case.raw_effect_of(metric, treatment)
    known = raw.known and found.known
    return Unadjusted(
        difference=metric.effect(raw.difference) if raw.pairs else None,
        low=_shown(metric, raw.low),
        high=_shown(metric, raw.high),
        p=raw.p if raw.known else None,
        explained=1 - (found.error / raw.error) ** 2 if known else None,
    )


def adjustment_report(one: Adjustment, case: ReportInput) -> AdjustmentReport:
    found = one.found
    return AdjustmentReport(
        used=one.used is not None,
        covariates=()
        if found is None
        else tuple(
            CovariateReport(
                name=fitted.covariate,
                theta=fitted.theta,
                missing=fitted.missing,
                mean=fitted.mean,
                share=fitted.share,
                coverage=fitted.coverage,
            )
            for fitted in found.fitted
        ),
        moved=0.0 if found is None else found.moved,
        sentences=tuple(_sentences(one, case)),
    )


def differing(
    adjustments: Sequence[Adjustment], control: str, deciding: Iterable[str]
) -> tuple[str, ...]:
    """Return a sentence for each variant and covariate that differ, if a deciding metric has them.

    They belong above the verdict: it is the one without the adjustment.
    """
    decisive = set(deciding)
    metrics: dict[tuple[str, str, bool], list[tuple[Metric, Imbalance]]] = {}
    for one in adjustments:
        for each in one.differing:
            place = each.treatment, _name(each.covariate), each.indicator
            metrics.setdefault(place, []).append((one.metric, each))
    return tuple(
        _differs(found, control)
        for found in metrics.values()
        if any(metric.name in decisive for metric, _ in found)
    )


def _differs(found: Sequence[tuple[Metric, Imbalance]], control: str) -> str:
    metric, first = found[0]
    more = first.found.difference > 0
    names = ", ".join(one.name for one, _ in found)
    rest = f"so {names} {'is' if len(found) == 1 else 'are'} compared without adjustment"
    if first.covariate != PAST:
        scale = _LOG_TOKENS if first.covariate == LOG_PROMPT_TOKENS else _TOKENS
        return (
            f"PROMPTS DIFFER: prompts of {first.treatment} are {'longer' if more else 'shorter'}"
            f" than those of {control}, by {_interval(scale, first.found)}"
            f"{'' if scale.scale == 'log' else ' tokens'}. If the variant changes them, adjusting"
            f" for them would hide a part of its effect, {rest}"
        )
    if first.indicator:
        return (
            f"PAST DIFFERS: units of {first.treatment} {'more' if more else 'less'} often have a"
            f" past than those of {control}. Not chance alone decides which units have values,"
            f" {rest}"
        )
    return (
        f"PAST DIFFERS: before the comparison, {metric.name} of the units of {first.treatment} was"
        f" {'higher' if more else 'lower'} than that of {control}'s, by"
        f" {_interval(metric, first.found)}. Not chance alone decides which units have values,"
        f" {rest}"
    )


def _sentences(one: Adjustment, case: ReportInput) -> Iterator[str]:
    name = one.metric.name
    if one.found is None:
        yield f"{name}: not adjusted, because too few units of several variants can be compared"
        return
    if not one.found.regressors:
        yield f"{name}: not adjusted, because it does not vary, or too few units have a covariate"
        return
    if one.differing:
        which = ", ".join(dict.fromkeys(_name(each.covariate) for each in one.differing))
        yield f"{name}: not adjusted, because {which} differs between variants"
        return
    by = ", ".join(
        _name(fitted.covariate) + _coverage(fitted.coverage)
        for fitted in one.found.fitted
        if fitted.theta
    )
    for variant in case.treatments:
        raw, found = case.raw_effect_of(one.metric, variant), case.effect_of(one.metric, variant)
        if raw.known and found.known:
            explained = 100 * (1 - (found.error / raw.error) ** 2)
            yield (
                f"{name} of {variant}: adjusted by {by}, which takes off"
                f" {figure(explained, '.3g')} % of the variance; without it"
                f" {_interval(one.metric, raw)}"
            )


def _coverage(share: float) -> str:
    return "" if share == 1 else f" (of {figure(100 * share, '.3g')} % of the units)"


def _name(covariate: str) -> str:
    """Return a covariate's name as the configuration has it."""
    return PROMPT_TOKENS if covariate == LOG_PROMPT_TOKENS else covariate


def _interval(metric: Metric, found: Effect) -> str:
    ends = f"{change(metric, found.low)} to {change(metric, found.high)}"
    return f"{change(metric, found.difference)} ({ends})"


def _shown(metric: Metric, value: float) -> float | None:
    shown = metric.effect(value)
    return shown if isfinite(value) and isfinite(shown) else None
