"""The report of a run for people."""

import click
from rich.markup import escape

from strowger_gateway.gateway.cli.experiments.replay.selecting import left_out_words
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.experiments.replay.report import ReplayedArm, ReplayReport
from strowger_gateway.gateway.experiments.replay.summary import notes


def print_report(found: ReplayReport) -> None:
    """Print the verdict, the arms, and what weakens the verdict."""
    judge = f", judged by {found.judge}" if found.judge else ""
    click.echo(f"{found.run}: {found.treatment} against {found.control}{judge}")
    click.echo(f"\nVerdict: {found.win_rate.sentence}")
    whole = found.win_rate
    click.echo(
        f"{found.counted:,} of {found.pairs:,} pairs count, of {whole.units:,} units: "
        f"{whole.wins:,} won, {whole.ties:,} tied, {whole.losses:,} lost"
    )
    click.echo()
    table = table_of("ARM", "MODEL", "ANSWERS", "FAILED", "PASSED", "SECONDS", "TOKENS", "USD")
    for arm in found.arms:
        table.add_row(*map(escape, _cells(arm)))
    show(table)
    for note in notes(found):
        click.echo(f"Note: {note}.")
    if words := left_out_words(found.left_out):
        click.echo(f"{words[:1].upper()}{words[1:]}")


def _cells(arm: ReplayedArm) -> tuple[str, ...]:
    return (
        arm.name,
        arm.model,
        f"{arm.answers:,}",
        f"{arm.failed:,}",
        f"{arm.passed:,} of {arm.checked:,}" if arm.checked else "",
        "" if arm.ms is None else f"{arm.ms / 1000:.2f}",
        "" if arm.tokens is None else f"{arm.tokens:,.0f}",
        f"{arm.usd:.4f}",
    )
