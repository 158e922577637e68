"""`strowger experiments replay`: send logged prompts to two arms, and judge their answers."""

import sys
import time
from pathlib import Path
from typing import Final

import click
import msgspec

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.experiments.replay.arms import is_judged_by_arm, prices_for
from strowger_gateway.gateway.cli.experiments.replay.numbers import FiniteRange
from strowger_gateway.gateway.cli.experiments.replay.output import print_report
from strowger_gateway.gateway.cli.experiments.replay.preparing import (
    Given,
    definition_of,
    found_or_new,
)
from strowger_gateway.gateway.cli.experiments.replay.progress import shown_progress, spent_words
from strowger_gateway.gateway.cli.experiments.replay.running import (
    INTERRUPTED,
    ReplaySite,
    run_replay,
)
from strowger_gateway.gateway.cli.experiments.replay.stores import (
    find_run,
    into_option,
    replay_store,
)
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.gateway.experiments.replay.report import report_of
from strowger_gateway.gateway.experiments.replay.rows import ReplayRows
from strowger_gateway.gateway.experiments.replay.spending import NANOS, Bound
from strowger_gateway.gateway.experiments.replay.votes import VoteRows
from strowger_gateway.gateway.experiments.replay.work import BOUND, COMPLETE

MOST_USD: Final = 1_000_000_000


@click.command()
@click.argument("name")
@click.option(
    "--from",
    "source",
    required=True,
    help="`payloads`: the logged payloads of the experiment's model in the store; or a file with a "
    "JSON object in each line.",
)
@click.option(
    "--arms", default="", help="Control and treatment: variants of NAME, or models. Default: both."
)
@click.option("--judge", default="", help="Model that judges. Without one, checks alone decide.")
@click.option(
    "--rubric",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File that says what the judge judges by.",
)
@click.option("--max-usd", type=FiniteRange(0, MOST_USD, min_open=True), help="Spend no more.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Use no more tokens.")
@click.option("--run", "run_name", help="Name of the run. Default: NAME.")
@click.option("--since", default="", help="Only payloads since so long ago: 24h, 7d.")
@click.option("--until", default="", help="Only payloads from before: 1h.")
@click.option(
    "--sample", type=click.IntRange(1, 100_000), default=500, show_default=True, help="Prompts."
)
@click.option(
    "--per-unit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Prompts of one unit.",
)
@click.option(
    "--answer-tokens",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    help="The most tokens of an answer whose request does not say it.",
)
@click.option(
    "--judge-tokens",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    help="The most tokens of a judgement, reasoning included.",
)
@click.option(
    "--test-command",
    default="",
    help="Command of yours that gets an answer on standard input; exit status 0 passes.",
)
@click.option(
    "--test-timeout",
    type=FiniteRange(0.1, 3_600),
    default=10.0,
    show_default=True,
    help="Seconds for the command.",
)
@click.option("--alpha", type=FiniteRange(0.0001, 0.5), default=0.05, show_default=True)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Requests in flight.",
)
@click.option("--strict", is_flag=True, help="A bad line of the file is an error.")
@click.option(
    "--key",
    default="",
    envvar="STROWGER_API_KEY",
    show_envvar=True,
    help="Client key, which pays for the replay.",
)
@into_option
@config_option
@url_option("URL of the gateway. Default: the address in the configuration.")
def replay(
    address: Address | None,
    tls: Tls,
    name: str,
    max_usd: float | None,
    max_tokens: int | None,
    run_name: str | None,
    concurrency: int,
    strict: bool,
    key: str,
    into: Path | None,
    path: Path,
    **options: object,
) -> None:
    """Send logged prompts to two arms through the running gateway, and compare the answers.

    NAME is an experiment, or any name if --arms are models. Every step is stored: the same command
    continues a run that was stopped. Requests come after all others, within the bound on spending.
    """
    config = load(path)
    site = address_of(config, tls) if address is None else address
    bound = Bound(nanos=None if max_usd is None else round(max_usd * NANOS), tokens=max_tokens)
    given = msgspec.convert(options, Given)
    definition = definition_of(config, name, given)
    prices = prices_for(config, definition, bound)
    if is_judged_by_arm(config, definition):
        told = (
            f"the judge {definition.judge} is the model of an arm, and may prefer its own answers"
        )
        click.echo(f"warning: {told}", err=True)
    with replay_store(config, into, create=True) as store:
        file = Path(given.source)
        run = found_or_new(config, store, name, run_name or name, definition, file, strict=strict)
        at = ReplaySite(address=site, key=key, concurrency=concurrency, bound=bound, prices=prices)
        rows = ReplayRows(store.database)
        with shown_progress(run.pairs, bound) as progress:
            ended = run_replay(rows, run, at, progress)
        found = find_run(rows, run.name)
        report = report_of(rows, VoteRows(store.database), found, time.time())
        print_report(report)
        spent = spent_words(rows.charged(run.name), bound)
        click.echo(f"\n{ended[:1].upper()}{ended[1:]}. Spent: {spent}.")
        if left := report.pairs - report.decided:
            click.echo(f"The same command continues; {left:,} pairs are left.")
    if ended != COMPLETE and not ended.startswith(BOUND):
        sys.exit(130 if ended == INTERRUPTED else 1)
