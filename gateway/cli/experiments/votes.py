"""`strowger experiments votes` and `remove-vote`: find wrong votes and remove them."""

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, load
from strowger_gateway.gateway.cli.experiments.history import find_experiment, opened, require_store
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.experiments.report_input import bounds_of
from strowger_gateway.gateway.storage.sql.experiments.votes import Vote

metric_option = click.option("--metric", help="Feedback metric. Default: the primary metric.")


@click.command()
@click.argument("name")
@metric_option
@click.option("--outside", is_flag=True, help="Only votes outside the metric's current range.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True)
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def votes(
    name: str, metric: str | None, outside: bool, limit: int, path: Path, as_json: bool
) -> None:
    """Show the votes of experiment NAME that are farthest from their mean, farthest first."""
    config = load(path)
    experiment = find_experiment(config, name)
    metric = metric or experiment.primary
    bounds = bounds_of(experiment, metric) if outside else None
    if outside and bounds is None:
        raise Faults((f'{metric} accepts every number: it has no contract under "metrics"',))
    with opened(config) as store:
        found = store.votes(name, metric, limit, bounds)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    table = table_of("REQUEST", "VALUE", "VARIANT", "EPOCH", "KEY", "TIME")
    for vote in found:
        at = datetime.fromtimestamp(vote.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        cells = (vote.request_id, _value(vote), vote.variant, str(vote.epoch), vote.key, at)
        table.add_row(*map(escape, cells))
    show(table)


@click.command("remove-vote")
@click.argument("name")
@click.argument("request_ids", metavar="REQUEST_ID...", nargs=-1, required=True)
@metric_option
@config_option
def remove_vote(name: str, request_ids: tuple[str, ...], metric: str | None, path: Path) -> None:
    """Remove the votes of a metric on these requests from experiment NAME, permanently."""
    config = load(path)
    experiment = find_experiment(config, name)
    require_store(config)
    metric = metric or experiment.primary
    events = {one: _event(name, metric, one) for one in request_ids}
    recorded = config.audit.log == "on"
    with opened(config) as store:
        gone = {
            one: store.remove_vote(name, metric, one, event if recorded else None)
            for one, event in events.items()
        }
    missing = [one for one, removed in gone.items() if not removed]
    click.echo(f"{len(gone) - len(missing):,} removed from {metric} of {name}")
    if missing:
        raise Faults(tuple(f"{one}: no vote of {metric} in {name}" for one in missing))


def _event(name: str, metric: str, request_id: str) -> AuditEvent:
    facts = {"metric": metric, "request_id": request_id}
    return AuditEvent.by(os_user(), "feedback.remove", target=name, facts=facts)


def _value(vote: Vote) -> str:
    if vote.boolean:
        return "true" if vote.value else "false"
    capped = "" if vote.given is None else f" (sent as {vote.given:g})"
    return f"{vote.value:g}{capped}"
