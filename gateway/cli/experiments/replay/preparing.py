"""What a command measures, and the run that it begins or continues."""

import re
import secrets
import shlex
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.cli.experiments.replay.arms import (
    arms_of,
    experiment_of,
    judge_of,
    model_of,
)
from strowger_gateway.gateway.cli.experiments.replay.selecting import (
    PAYLOADS,
    left_out_words,
    of_file,
    of_payloads,
    select,
)
from strowger_gateway.gateway.cli.experiments.replay.stores import find_run, replay_store
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.experiments.replay.checks import has_checks
from strowger_gateway.gateway.experiments.replay.definition import Definition, differences
from strowger_gateway.gateway.experiments.replay.rows import ReplayRows, ReplayRun
from strowger_gateway.gateway.experiments.replay.sources.file_lines import file_digest
from strowger_gateway.gateway.storage.sql.errors import StoreRejected
from strowger_gateway.gateway.storage.sql.sql import SqlStore

_RUN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""It is sent in headers and paths."""


class Given(Struct, frozen=True, kw_only=True):
    """The options of the command that decide what is measured."""

    source: str
    arms: str
    judge: str
    rubric: Path | None
    since: str
    until: str
    sample: int
    per_unit: int
    answer_tokens: int
    judge_tokens: int
    test_command: str
    test_timeout: float
    alpha: float


def definition_of(config: Config, name: str, given: Given) -> Definition:
    """Raises Faults."""
    control, treatment = arms_of(config, name, [w for w in given.arms.split(",") if w])
    experiment = experiment_of(config, name)
    digest = model = ""
    if given.source == PAYLOADS:
        asked = control.model if experiment is None else experiment.model
        found = model_of(config, asked, "--arms")
        model = asked if found.name.endswith("*") else found.name
    elif given.since or given.until:
        raise Faults(("--since and --until are for --from payloads",))
    else:
        try:
            digest = file_digest(Path(given.source))
        except OSError as exc:
            raise Faults((f"--from: {given.source}: {exc.strerror or exc}",)) from exc
    if given.test_command:
        _check_command(given.test_command)
    return Definition(
        control=control,
        treatment=treatment,
        source=given.source if given.source == PAYLOADS else Path(given.source).name,
        digest=digest,
        model=model,
        since=given.since,
        until=given.until,
        sample=given.sample,
        per_unit=given.per_unit,
        judge=judge_of(config, given.judge) if given.judge else "",
        rubric=_text(given.rubric),
        answer_tokens=given.answer_tokens,
        judge_tokens=given.judge_tokens,
        test_command=given.test_command,
        test_timeout_s=given.test_timeout,
        alpha=given.alpha,
    )


def _check_command(command: str) -> None:
    try:
        words = shlex.split(command)
    except ValueError as exc:
        raise Faults((f"--test-command: {exc}",)) from exc
    if not words or shutil.which(words[0]) is None:
        raise Faults((f"--test-command: no program {(words or [''])[0]!r} is found",))


def _text(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise Faults((f"--rubric: {path}: {exc}",)) from exc
    if not text:
        raise Faults((f"--rubric: {path} is empty",))
    return text


def found_or_new(
    config: Config,
    store: SqlStore,
    name: str,
    run_name: str,
    definition: Definition,
    file: Path,
    *,
    strict: bool,
) -> ReplayRun:
    """Return the run to work on. file: the source, if it is one.

    Raises Faults if the run is known, and another one.
    """
    if not _RUN_NAME.fullmatch(run_name):
        raise Faults(
            ("--run: up to 64 letters, digits and . - _, starting with a letter or digit",)
        )
    rows = ReplayRows(store.database)
    known = rows.run(run_name)
    if known is None:
        experiment = experiment_of(config, name)
        if definition.source == PAYLOADS:
            label = "" if experiment is None else experiment.name
            with replay_store(config, None) as logged:
                found = of_payloads(config, logged.database, definition, label)
                prompts, left_out = select(run_name, definition, found)
                if config.audit.log == "on":
                    facts = {"prompts": str(len(prompts))}
                    target = f"replay {run_name}"
                    event = AuditEvent.by(os_user(), "payload.read", target=target, facts=facts)
                    logged.audit.append([event])
        else:
            found = of_file(file, strict=strict, test_command=definition.test_command)
            prompts, left_out = select(run_name, definition, found)
        command = definition.test_command
        if not definition.judge and not any(has_checks(one, command) for one in prompts):
            raise Faults(
                ("give --judge MODEL: no prompt has `expected` or `schema` to check answers by",)
            )
        click.echo(f"{run_name}: {len(prompts):,} prompts", err=True)
        if words := left_out_words(left_out):
            click.echo(f"{run_name}: {words}", err=True)
        salt, now = secrets.token_hex(8), time.time()
        with suppress(StoreRejected):  # another command may have made it in the meantime
            rows.create(run_name, definition, prompts, left_out=left_out, salt=salt, now=now)
        known = find_run(rows, run_name)
    if wrong := differences(known.definition, definition):
        told = f"{run_name} exists, and this command differs from it; give another --run"
        raise Faults((told, *wrong))
    if known.redacted:
        raise Faults((f"{run_name}: its texts are deleted (store.keep_payload_days)",))
    return known
