"""`strowger check`: report all errors of a configuration."""

import asyncio
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from strowger_gateway.gateway.assembly.wiring.models import models_of
from strowger_gateway.gateway.cli.checking.lonely import lonely_controls
from strowger_gateway.gateway.cli.checking.report import CheckReport, located, message_of
from strowger_gateway.gateway.cli.checking.trial import try_parts
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.cli.known_models.retirement import retirements
from strowger_gateway.gateway.cli.prompts.changed_texts import changed_texts
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema_store import SQLITE
from strowger_gateway.gateway.server.open_files import file_warnings, most_open_files
from strowger_gateway.schemas.errors import InvalidConfig

if TYPE_CHECKING:
    from strowger_gateway.gateway.routing.planning.route import Route


@click.command()
@click.argument("named", metavar="[CONFIG]", type=click.Path(path_type=Path), default=None)
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print all messages as JSON, for CI.")
def check(named: Path | None, path: Path, as_json: bool) -> None:
    """Check CONFIG, or --config, without serving it; exit with 1 if it has errors.

    Settings without effect are warnings, and so are models that retire within 60 days. Messages
    begin with file, line and column.
    """
    path = path if named is None else named
    report = CheckReport(file=str(path))
    try:
        config = _checked(path, report)
    except Faults as exc:
        if not as_json:
            raise
        report.errors = [message_of(one, str(path)) for one in exc.message.splitlines()]
        click.echo(report.as_json())
        raise SystemExit(exc.exit_code) from exc
    if as_json:
        report.ok = True
        click.echo(report.as_json())
        return
    for note in report.notes:
        click.echo(f"note: {note.text}", err=True)
    for warning in report.warnings:
        click.echo(f"warning: {warning.text}", err=True)
    counted = ", ".join(
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in (
            (len({one.replica_of or one.name for one in config.providers}), "provider"),
            (len(config.models), "model"),
            (len(config.auth.keys), "key"),
            (len(config.experiments), "experiment"),
        )
        if count or noun in ("provider", "model")
    )
    click.echo(f"{path}: OK ({counted}; hash {config.digest})")


def _checked(path: Path, report: "CheckReport") -> Config:
    """Load and build. Raises Faults, each with its place in the file as far as it has one."""
    warnings: list[str] = []
    config = load(path, warnings.append, try_parts)
    try:
        notes = build(config)
    except Faults as exc:
        raise Faults(tuple(located(one, config) for one in exc.message.splitlines())) from exc
    warnings += file_warnings(config, most_open_files())
    warnings += lonely_controls(config)
    warnings += changed_texts(config)
    warnings += retirements(config, models_of(config), datetime.now(UTC).date())
    report.notes = [message_of(located(one, config), str(path)) for one in notes]
    report.warnings = [message_of(located(one, config), str(path)) for one in warnings]
    return config


def build(config: Config) -> tuple[str, ...]:
    """Build what `serve` builds, and discard it: no connection, no process, no file is created.

    Returns notes for the operator.
    Raises Faults for errors that only building shows: an address that an adapter rejects, an
    unreadable file, a missing extra, a host that is not this machine's, tables of another
    version.
    Does not bind the port: the running gateway may use it.
    """
    # Late: an invalid configuration does not get here.
    from strowger_gateway.gateway.assembly.runtime import Runtime
    from strowger_gateway.gateway.cli.newer_schema import refuse_other_tables
    from strowger_gateway.gateway.coordination.setup import transport_of
    from strowger_gateway.gateway.fleet.listening.listening_socket import listen
    from strowger_gateway.gateway.storage.sql.open import open_store

    with tempfile.TemporaryDirectory(prefix="strowger-") as folder, faults_shown():
        cuts = _engine_models(config)
        try:
            runtime = Runtime(config, run_dir=Path(folder))
        except ValueError as exc:
            raise Faults((str(exc),)) from exc
        notes = (*_bounds(runtime.table.routes.values()), *_replicas(config), *cuts)
        asyncio.run(runtime.close())
        open_store(config.store.url).close()
        refuse_other_tables(config.store.url)
        transport_of(config)
        listen(config.server.host, 0).close()
    return notes


def _engine_models(config: Config) -> tuple[str, ...]:
    """Check the folders of engines' models, and note contexts that are cut.

    Raises InvalidConfig for everything that they show before the engine loads them.
    """
    from strowger_gateway.local_engine.loading.checkpoint_files import check_files, cut_of
    from strowger_gateway.local_engine.loading.model_paths import check_folder, model_folder

    problems: list[str] = []
    notes: list[str] = []
    for provider in config.providers:
        for model in () if provider.engine is None else provider.engine.models:
            where = f"providers {provider.name!r}: engine model {model.name!r}: "
            try:
                check_folder(model.path)
                if not model.revision and Path(folder := model_folder(model.path)).is_dir():
                    check_files(folder, model.task)
                    notes += [where + cut] if (cut := cut_of(folder)) else []
            except InvalidConfig as exc:
                problems += [where + problem for problem in exc.problems]
    if problems:
        raise InvalidConfig(tuple(problems))
    return tuple(notes)


def _replicas(config: Config) -> Iterator[str]:
    """Note what works with one gateway only."""
    if config.responses.store == "on" and config.store.url.reveal().startswith(SQLITE):
        yield (
            "responses.store: responses are stored in an SQLite file, which one gateway uses; "
            "several gateways need a store.url of PostgreSQL"
        )


def _bounds(routes: "Iterable[Route]") -> Iterator[str]:
    """Note backends that get a `max_tokens` which neither client nor operator set."""
    for route in routes:
        given = (route.defaults.sampling.max_tokens, route.overrides.sampling.max_tokens)
        if route.require or any(one not in (UNSET, None) for one in given):
            continue
        for backend in route.backends:
            ceilings = backend.supports.max_tokens
            if ceilings is None:
                continue
            most = "its ceiling"
            if backend.model != "*":
                known = backend.models.of(backend.name).max_output
                most = str(known or ceilings.of(backend.model))
            yield (
                f"models {route.name!r}: {backend.name} requires max_tokens; a request without it "
                f"gets {most} (change it in models[].defaults)"
            )
