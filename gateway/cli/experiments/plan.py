"""`strowger experiments plan`: how many units an experiment needs."""

from collections.abc import Sequence
from math import ceil, log1p
from pathlib import Path

import click
import msgspec
from msgspec import Struct
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import Faults, config_option, load
from strowger_gateway.gateway.cli.experiments.history import opened
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.checks.experiment_power import needed_for_harm
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.baselines import Baseline, baseline_of
from strowger_gateway.gateway.experiments.report_input import clauses_of, metrics_of
from strowger_gateway.gateway.statistics import sample_size as planner
from strowger_gateway.gateway.statistics.formatting import figure
from strowger_gateway.gateway.statistics.metrics import Metric
from strowger_gateway.gateway.statistics.sample_size import SamplePlan
from strowger_gateway.gateway.storage.sql.base import Store


class Planned(Struct, frozen=True, kw_only=True):
    """One metric of an experiment's plan.

    by:    of a clause "not worse". apart: the difference to detect, on the metric's scale.
    units: to assign, so that enough of them have an observation.
    """

    metric: str
    by: float | None
    apart: float
    baseline: Baseline
    plan: SamplePlan
    units: int


@click.command()
@click.option("--baseline", type=float, help="Mean of the control; 0.12 means 12 %.")
@click.option(
    "--lift", type=float, required=True, help="Smallest difference to detect, such as 0.02."
)
@click.option("--relative", is_flag=True, help="The lift is relative to the baseline.")
@click.option(
    "--alpha",
    type=float,
    default=0.05,
    show_default=True,
    help="Significance level (false-positive rate).",
)
@click.option(
    "--power", type=float, default=0.8, show_default=True, help="Probability of detecting the lift."
)
@click.option("--shares", default="50,50", show_default=True, help="Traffic split, control first.")
@click.option(
    "--sd", type=float, help="Standard deviation of units' means, for metrics other than yes/no."
)
@click.option(
    "--from",
    "name",
    help="Take baselines and standard deviations from this experiment's control in the store; "
    "with `decide`, plan all its clauses. The lift applies to the metric of `better`.",
)
@click.option(
    "--metric", help="With --from: plan only this metric. For times the lift is relative."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_option
def plan(
    baseline: float | None,
    lift: float,
    relative: bool,
    alpha: float,
    power: float,
    shares: str,
    sd: float | None,
    name: str | None,
    metric: str | None,
    as_json: bool,
    path: Path,
) -> None:
    """Plan how many units an experiment needs. Only --from reads the store."""
    if name is not None:
        terms = _Terms(lift, relative, alpha, power, _shares(shares))
        found = _from_store(path, name, metric, terms)
        _show_clauses(found, as_json=as_json)
        return
    if baseline is None:
        raise click.UsageError("give --baseline, or --from with the name of an experiment")
    try:
        one = planner.plan(
            baseline=baseline,
            lift=lift,
            relative=relative,
            alpha=alpha,
            power=power,
            shares=_shares(shares),
            sd=sd,
        )
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(one), indent=2))
        return
    each = ", ".join(f"{count:,}" for count in one.units)
    click.echo(f"Required sample: {one.total:,} units ({each}) with continuous monitoring")
    click.echo(f"Fixed-horizon test: {one.fixed_total:,} units (look once, at the end)")
    control, *others = _shares(shares)
    harm = max(needed_for_harm(control, other) for other in others)
    click.echo(
        f"Harm limits: from about {harm:,} active units on, if all requests of a variant fail"
    )
    click.echo(f"config.yaml: planned: {one.total}, smallest: {abs(one.difference):g}")


class _Terms(Struct, frozen=True):
    lift: float
    relative: bool
    alpha: float
    power: float
    shares: list[float]

    def apart(self, metric: Metric, mean: float) -> float:
        """The lift on the metric's scale. Raises ValueError if it has no logarithm."""
        if metric.scale == "log":
            if self.lift <= -1:
                raise ValueError(f"lift: {self.lift:g} is relative to a time and must be above -1")
            return abs(log1p(self.lift))
        return abs(self.lift * mean if self.relative else self.lift)


def _from_store(path: Path, name: str, metric: str | None, terms: _Terms) -> list[Planned]:
    config = load(path)
    experiment = next((one for one in config.experiments if one.name == name), None)
    if experiment is None:
        names = [one.name for one in config.experiments]
        raise Faults((f'no experiment is named "{name}"{nearest(name, names)}',))
    with opened(config) as store:
        metrics = {one.name: one for one in metrics_of(experiment, store.metrics(experiment.name))}
        wanted = clauses_of(experiment) if metric is None else ()
        wanted = wanted or ((metric or experiment.primary, None),)
        try:
            return [
                _planned(experiment, store, _metric(metrics, one), by, terms, len(wanted))
                for one, by in wanted
            ]
        except ValueError as exc:
            raise click.UsageError(str(exc)) from exc


def _metric(metrics: dict[str, Metric], name: str) -> Metric:
    if name not in metrics:
        raise ValueError(f"metric: {name} has no values in the store{nearest(name, list(metrics))}")
    return metrics[name]


def _planned(
    experiment: Experiment,
    store: Store,
    metric: Metric,
    by: float | None,
    terms: _Terms,
    clauses: int,
) -> Planned:
    """Split the probability of a miss evenly over several clauses."""
    found = baseline_of(experiment, store, metric)
    power = 1 - (1 - terms.power) / clauses
    if by is None:
        apart = terms.apart(metric, found.mean)
    else:
        apart = log1p(by) if metric.scale == "log" else by
    if experiment.decide is None or (clauses == 1 and by is None):
        one = planner.plan(
            baseline=found.mean,
            lift=apart,
            alpha=terms.alpha,
            power=power,
            shares=terms.shares,
            sd=found.sd,
        )
    else:
        one = planner.plan_clause(
            baseline=found.mean,
            apart=apart,
            better=by is None,
            alpha=terms.alpha,
            power=power,
            shares=terms.shares,
            sd=found.sd,
        )
    return Planned(
        metric=metric.name,
        by=by,
        apart=apart,
        baseline=found,
        plan=one,
        units=ceil(one.total / found.observed_share),
    )


def _show_clauses(found: Sequence[Planned], *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    table = table_of("METRIC", "MUST BE", "BASELINE", "SD", "FROM UNITS", "WITH A VALUE", "UNITS")
    for one in found:
        clause = "better" if one.by is None else f"not worse by {one.by:g}"
        seen = one.baseline
        row = (
            one.metric,
            clause,
            figure(seen.mean, ".4g"),
            figure(seen.sd, ".4g"),
            f"{seen.units:,}",
            f"{100 * seen.observed_share:.3g} %",
            f"{one.units:,}",
        )
        table.add_row(*map(escape, row))
    show(table)
    for one in found:
        if one.baseline.explained:
            off = figure(100 * one.baseline.explained, ".3g")
            click.echo(
                f"{one.metric}: SD after the adjustment, which takes off {off} % of the variance"
            )
    most = max(one.units for one in found)
    click.echo(f"\nRequired sample: {most:,} units with continuous monitoring")
    click.echo(f"config.yaml: planned: {most}")


def _shares(text: str) -> list[float]:
    try:
        return [float(share) for share in text.split(",")]
    except ValueError as exc:
        raise click.UsageError(
            f"--shares: {text!r} is not a list of numbers such as 80,20"
        ) from exc
