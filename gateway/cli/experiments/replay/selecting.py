"""Select the prompts of a new run, from a file or from the store, and count the rest by reason."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.cli.durations import duration
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.experiments.replay.definition import Definition
from strowger_gateway.gateway.experiments.replay.prompts import ReplayedPrompt, Unusable
from strowger_gateway.gateway.experiments.replay.sources.file_lines import file_prompts
from strowger_gateway.gateway.experiments.replay.sources.selection import Selection
from strowger_gateway.gateway.experiments.replay.sources.stored_payloads import (
    Wanted,
    stored_prompts,
)
from strowger_gateway.gateway.storage.sql.database import Database

PAYLOADS: Final = "payloads"
_SHOWN: Final = 10
"""Bad lines of a file that are named."""


def select(
    run: str, definition: Definition, found: Iterator[ReplayedPrompt | Unusable]
) -> tuple[list[ReplayedPrompt], dict[str, int]]:
    """Return the prompts of a run in their order, and how many were left out, by reason.

    Raises Faults if there are none.
    """
    selection = Selection(run, definition.sample, definition.per_unit)
    for one in found:
        if isinstance(one, Unusable):
            selection.leave_out(one)
        else:
            selection.add(one)
    chosen = selection.chosen()
    left_out = dict(selection.left_out.most_common())
    if not chosen:
        empty = "the source is empty"
        if definition.source == PAYLOADS:
            empty = f"the store has no payload of {definition.model} (see logging.payloads)"
        why = left_out_words(left_out) or empty
        raise Faults((f"--from {definition.source}: has no prompt to replay; {why}",))
    return chosen, left_out


def left_out_words(left_out: Mapping[str, int]) -> str:
    if not left_out:
        return ""
    parts = [f"{count:,} ({reason})" for reason, count in left_out.items()]
    return f"left out: {', '.join(parts)}"


def of_file(path: Path, *, strict: bool, test_command: str) -> Iterator[ReplayedPrompt | Unusable]:
    """Read a file. strict: a bad line raises Faults, else it is named and left out."""
    bad = 0
    try:
        for line in file_prompts(path):
            found = line.found
            if isinstance(found, ReplayedPrompt) and found.test is not None and not test_command:
                raise Faults(
                    (f"{path}: line {line.number}: test: needs --test-command, which runs it",)
                )
            if isinstance(found, Unusable):
                told = f"{path}: line {line.number}: {found}"
                if strict:
                    raise Faults((told,))
                bad += 1
                if bad <= _SHOWN:
                    click.echo(f"{told}; left out", err=True)
            yield found
    except OSError as exc:
        raise Faults((f"--from: {path}: {exc.strerror or exc}",)) from exc
    if bad > _SHOWN:
        click.echo(f"{path}: {bad - _SHOWN:,} more lines are left out", err=True)


def of_payloads(
    config: Config, database: Database, definition: Definition, experiment: str
) -> Iterator[ReplayedPrompt | Unusable]:
    """Read the logged payloads of a model. experiment: whose units are known; "" for none."""
    now = time.time()
    aliases = [one.aliases for one in config.models if one.name == definition.model]
    rules = config.logging.payloads.redact
    wanted = Wanted(
        models=(definition.model, *(name for names in aliases for name in names)),
        since=now - duration(definition.since) if definition.since else 0.0,
        until=now - duration(definition.until) if definition.until else now,
        experiment=experiment,
        replacements=tuple(sorted({rule.replacement for rule in rules})),
    )
    return stored_prompts(database, wanted)
