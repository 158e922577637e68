"""`strowger experiments`: reports and sample sizes of experiments, pause and resume."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
import msgspec
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.config_loading import Faults, config_option, load
from strowger_gateway.gateway.cli.experiments.exclude import exclude, include
from strowger_gateway.gateway.cli.experiments.export import export
from strowger_gateway.gateway.cli.experiments.history import find_experiment, opened, require_store
from strowger_gateway.gateway.cli.experiments.plan import plan
from strowger_gateway.gateway.cli.experiments.replay.commands import REPLAYS
from strowger_gateway.gateway.cli.experiments.votes import remove_vote, votes
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.arm_report import ArmReport
from strowger_gateway.gateway.experiments.contract_report import declared
from strowger_gateway.gateway.experiments.metric_report import Measured, MetricReport
from strowger_gateway.gateway.experiments.removed import UNKNOWN, removed_experiments
from strowger_gateway.gateway.experiments.report import (
    Report,
    adjusted,
    alarms,
    doubts,
    report_of,
)
from strowger_gateway.gateway.experiments.summary import (
    ListedExperiment,
    configured,
    removed,
)
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from strowger_gateway.gateway.statistics.formatting import figure, signed
from strowger_gateway.gateway.storage.sql.base import Store

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def experiments() -> None:
    """A/B tests of models: reports, sample sizes, pause and resume."""


for command in (export, plan, votes, remove_vote, exclude, include, *REPLAYS):
    experiments.add_command(command)


@experiments.command("list")
@config_option
@json_option
def listed(path: Path, as_json: bool) -> None:
    """List all experiments with their state, including those removed from the configuration."""
    config = load(path)
    with opened(config) as store:
        rows = [configured(one, _standing(one, store)) for one in config.experiments]
        rows += [removed(one) for one in removed_experiments(store, {row.name for row in rows})]
    if as_json:
        _print_json(rows)
        return
    table = table_of("EXPERIMENT", "MODEL", "VARIANTS", "PRIMARY", "EPOCH", "STATE")
    for row in rows:
        epoch = "" if row.removed else str(row.epoch)
        names = (row.name, row.model, ", ".join(row.variants), row.primary, epoch, _state(row))
        table.add_row(*map(escape, names))
    show(table)


@experiments.command()
@click.argument("name")
@config_option
@json_option
def report(name: str, path: Path, as_json: bool) -> None:
    """Show the results of experiment NAME so far, with a verdict.

    For an experiment that was removed from the configuration: its final results.
    """
    config = load(path)
    with opened(config) as store:
        found = _report(config, store, name)
    if as_json:
        _print_json(found)
    else:
        print_report(found)


@experiments.command()
@click.argument("name")
@click.option("--reason", default="by the operator", show_default=True, help="Shown in reports.")
@config_option
def pause(name: str, reason: str, path: Path) -> None:
    """Serve all requests by the control until resumed. Running gateways follow within 2 s."""
    config = load(path)
    experiment = find_experiment(config, name)
    require_store(config)
    with opened(config) as store:
        store.pause(experiment.name, reason, time.time())
    click.echo(f"{name} is paused: {experiment.control.name} serves all requests")


@experiments.command()
@click.argument("name")
@config_option
def resume(name: str, path: Path) -> None:
    """Assign requests to variants again, in a new epoch. Running gateways follow within 2 s."""
    config = load(path)
    require_store(config)
    with opened(config) as store:
        was = store.resume(find_experiment(config, name).name)
    click.echo(f"{name} is resumed" if was else f"{name} was not paused")


def print_report(found: Report) -> None:
    """Print a report for people. A sample ratio mismatch comes first and stands out."""
    words = [f"epoch {found.epoch}", "running"] if found.epoch else ["not started"]
    if found.removed:
        words[1:] = [_ended(found.last_request)]
    elif found.paused:
        words[1:] = [f"PAUSED: {found.reason}"]
    kind = ", A/A" if found.aa else ""
    click.echo(
        f"{found.experiment} over {found.model}, by {found.assign_by}{kind}; {', '.join(words)}"
    )
    for sentence in alarms(found):
        click.echo(f"\n{'!' * 12} {sentence}")
    click.echo(f"\n{'!' * 12} " if found.mismatch else "\nVerdict: ", nl=False)
    click.echo(found.sentence)
    for decision in found.decisions:
        click.echo(f"Decision on {decision.variant}:")
        for clause in decision.clauses:
            mark = "holds" if clause.holds else "no" if clause.refuted else "open"
            click.echo(f"  {mark:5}  {clause.sentence}")
    for sentence in found.harm_limits:
        click.echo(f"Harm limit: {sentence}")
    if found.excluded:
        unit = found.assign_by.replace("_", " ").replace("header:", "header ")
        click.echo(
            f"Excluded: {found.excluded:,} requests without a {unit}, or that a variant's `system` "
            "or prompt does not fit"
        )
    click.echo()
    _show_arms(found.arms)
    if any(one.keys > 1 for one in found.keys):
        click.echo()
        show(_keys(found))
    click.echo()
    table = table_of("METRIC", "VARIANT", "UNITS", "VALUES", "MEAN", "DIFFERENCE", "INTERVAL")
    for metric in found.metrics:
        for measured in metric.variants:
            table.add_row(*map(escape, _cells(metric, measured)))
    show(table)
    for sentence in (*declared(found), *adjusted(found)):
        click.echo(f"{sentence}.")
    for note in doubts(found):
        click.echo(f"Note: {note}.")
    for guard in found.guards:
        click.echo(f"Guard: {guard.sentence}.")
    for response in found.responses:
        if response.rate is not None and response.control is not None:
            click.echo(
                f"Votes per request on {response.metric}: {figure(response.rate, '.3g')} of"
                f" {response.variant}, {figure(response.control, '.3g')} of {found.arms[0].name}"
            )
    if found.epoch > 1:
        click.echo("\nUNITS of a metric: a unit that returned in a later epoch counts again.")


def _show_arms(found: Sequence[ArmReport]) -> None:
    prompts = ["PROMPT"] if any(arm.prompt for arm in found) else []
    arms = table_of("VARIANT", "BACKEND", *prompts, "WEIGHT", "UNITS", "REQUESTS", "FALLBACK")
    for arm in found:
        arms.add_row(
            escape(arm.name),
            escape(arm.backend),
            *([escape(arm.prompt)] if prompts else []),
            f"{arm.weight:g}",
            f"{arm.units:,}",
            f"{arm.requests:,}",
            f"{100 * arm.fallback_share:.2g} %",
        )
    show(arms)


def _keys(found: Report) -> Table:
    """Return the table of the largest keys of each variant."""
    table = table_of("KEY", "VARIANT", "REQUESTS", "UNITS", "VOTES")
    for one in found.keys:
        votes = ", ".join(f"{100 * vote.share:.0f} % of {vote.metric}" for vote in one.votes)
        table.add_row(
            escape(one.key or "(none)"),
            escape(one.variant),
            f"{one.requests:,} ({100 * one.request_share:.0f} %)",
            f"{one.units:,} ({100 * one.unit_share:.0f} %)",
            escape(votes),
        )
    return table


def _cells(metric: MetricReport, row: Measured) -> tuple[str, ...]:
    first = metric.name + (" (primary)" if metric.primary else "")
    says = partial(signed, relative=metric.relative)
    if row.low is not None and row.high is not None:
        between = f"{says(row.low)} to {says(row.high)}"
    else:
        between = row.missing
    return (
        first,
        row.variant,
        f"{row.units:,}",
        f"{row.observations:,}",
        "" if row.mean is None else figure(row.mean, ",.4g"),
        "" if row.difference is None else says(row.difference),
        between,
    )


def _standing(experiment: Experiment, store: Store) -> ExperimentStatus:
    pause = store.pauses().get(experiment.name)
    epochs = store.epochs(experiment.name)
    return ExperimentStatus(
        epoch=epochs[-1].number if epochs else 0,
        paused=pause is not None,
        reason="" if pause is None else pause.reason,
    )


def _state(row: ListedExperiment) -> str:
    if row.removed:
        return _ended(row.last_request)
    if row.paused:
        return f"PAUSED: {row.reason}"
    return "running" if row.epoch else "not started"


def _ended(last: float | None) -> str:
    """last: Unix seconds."""
    if last is None:
        return "removed from the configuration"
    at = datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"removed from the configuration, last request {at}"


def _report(config: Config, store: Store, name: str) -> Report:
    for experiment in config.experiments:
        if experiment.name == name:
            return report_of(experiment, store)
    names = [one.name for one in config.experiments]
    for one in removed_experiments(store, names):
        names.append(one.name)
        if one.name == name and one.experiment is None:
            raise Faults((f"{name}: {UNKNOWN}",))
        if one.name == name and one.experiment is not None:
            return report_of(one.experiment, store, removed=True)
    raise Faults((f'no experiment is named "{name}"{nearest(name, names)}',))


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
