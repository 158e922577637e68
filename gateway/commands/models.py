"""`strowger models`: the adapters, what each can honour, and whether the configured ones work."""

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from adapters.base import Endpoint, Range, Supports
from adapters.registry import Registry
from adapters.support import offered
from gateway.commands.configuration import config_option, faults_shown, load
from gateway.commands.probe import probe, report
from gateway.commands.screen import show, table_of
from gateway.config.known import LOCAL
from gateway.config.problems import nearest
from schemas.fields import FIELDS, Task

ANYWHERE = "https://localhost/openai/v1"
"""Stands in for the base URL of an adapter that has none; nothing is sent there. Azure's wants a
path."""


@click.command()
@click.argument("adapter", required=False)
@click.option("--probe", "probing", is_flag=True, help="Ask every configured backend for a token.")
@click.option("--timeout", "timeout_s", default=30.0, show_default=True, help="Seconds a backend.")
@config_option
def models(adapter: str | None, probing: bool, timeout_s: float, path: Path) -> None:
    """List the adapters, or the request fields that ADAPTER can honour.

    With --probe: make the cheapest real call to every backend of the configuration, and tell what
    is wrong with those that do not answer; the exit status is then 1.
    """
    if probing:
        if adapter is not None:
            raise click.UsageError("--probe asks the configured backends; leave ADAPTER out")
        config = load(path)
        with Console(stderr=True).status("Asking every backend for one token"):
            found = probe(config, timeout_s=timeout_s)
        show(report(found))
        if not all(one.fine for one in found):
            sys.exit(1)
        return
    with faults_shown():
        registry = Registry()
    names = (*registry.names, LOCAL)
    if adapter is None:
        show(_overview(registry, names))
        return
    if adapter not in names:
        raise click.UsageError(f"there is no adapter {adapter!r}{nearest(adapter, names)}")
    show(_fields(supported(registry, adapter)))


def supported(registry: Registry, name: str) -> Supports:
    """What the adapter can honour at its own base URL. Raises Faults for a broken plug-in."""
    if name == LOCAL:
        from gateway.upstream.local import LOCAL_SUPPORTS

        return LOCAL_SUPPORTS
    endpoint = Endpoint(name=name, base_url=registry.base_url(name) or ANYWHERE)
    with faults_shown():
        return registry.build(name, endpoint).supports


def _overview(registry: Registry, names: tuple[str, ...]) -> Table:
    table = table_of("ADAPTER", "TASKS", "UNKNOWN FIELDS", "BASE URL")
    for name in names:
        supports = supported(registry, name)
        tasks = [task for task in FIELDS if offered(supports, task) is not None]
        url = "this machine" if name == LOCAL else registry.base_url(name) or "must be given"
        table.add_row(escape(name), ", ".join(tasks), _unknown(supports), escape(url))
    return table


def _unknown(supports: Supports) -> str:
    """What becomes of fields that are in no table of ours."""
    if supports.extra:
        return "sent on"
    return "refused, but for a few" if supports.extra_fields else "refused"


def _fields(supports: Supports) -> Table:
    tasks: list[Task] = [task for task in FIELDS if offered(supports, task) is not None]
    table = table_of("FIELD", *(task.upper() for task in tasks), "RANGE")
    for field in sorted({field for task in tasks for field in FIELDS[task]}):
        marks = [_mark(field, task, supports) for task in tasks]
        bounds = supports.ranges.get(field)
        table.add_row(field, *marks, _words(bounds) if bounds else "")
    few = supports.extra_fields
    for field in sorted({field for task in tasks for field in few.get(task, ())}):
        table.add_row(field, *("yes" if field in few.get(task, ()) else "" for task in tasks), "")
    return table


def _mark(field: str, task: Task, supports: Supports) -> str:
    """Blank where the task has no such field at all."""
    if field not in FIELDS[task]:
        return ""
    return "yes" if field in (offered(supports, task) or ()) else "no"


def _words(bounds: Range) -> str:
    said = (
        (">=", bounds.minimum),
        (">", bounds.above),
        ("<=", bounds.maximum),
        ("<", bounds.below),
        ("entries <=", bounds.items),
    )
    return ", ".join(f"{words} {bound:g}" for words, bound in said if bound is not None)
