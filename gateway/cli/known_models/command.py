"""`strowger models`: list adapters and their capabilities, probe configured backends."""

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strowger_gateway.adapters.base import Endpoint, Supports
from strowger_gateway.adapters.capabilities import describe_range, offered, sent_as
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.cli.adapter_json import AdapterDescription, describe_adapter
from strowger_gateway.gateway.cli.address import Address, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, faults_shown, load
from strowger_gateway.gateway.cli.http_client import admin_key_option
from strowger_gateway.gateway.cli.known_models.facts import facts_table, known_backends
from strowger_gateway.gateway.cli.known_models.running import models_table, running_models
from strowger_gateway.gateway.cli.probe import probe, report
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.cli.terminal_output import unguarded
from strowger_gateway.gateway.config.adapter_names import GUARDRAILS, LOCAL, WITHOUT_WIRE
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config, Tls
from strowger_gateway.schemas.fields import FIELDS, Task

ANYWHERE = "https://localhost/openai/v1"
"""A placeholder for adapters without a default base URL; it gets no requests. Azure's needs a
path."""


@click.command()
@click.argument("adapter", required=False)
@click.option(
    "--probe", "probing", is_flag=True, help="Request one token from every configured backend."
)
@click.option(
    "--backends", "knowing", is_flag=True, help="Show what is known about the configured models."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds per backend.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@url_option("List the models of the gateway at this address: routes, state, facts and prices.")
@admin_key_option
@config_option
def models(
    address: Address | None,
    _: Tls,
    adapter: str | None,
    probing: bool,
    knowing: bool,
    timeout_s: float,
    as_json: bool,
    admin_key: str,
    path: Path,
) -> None:
    """List the adapters, or how ADAPTER handles each request field.

    "yes": passed on unchanged; "as NAME": supported, under the name NAME in the backend's own
    format; "no": rejected with an error that names the field. RANGE: values that the backend
    accepts.

    With --probe: send the cheapest real request to every backend of the configuration and show
    the cause of failures; the exit status is 1 if any backend fails. Of chats in OpenAI's dialect
    it also tries whether, and how, an answer that has begun is continued (`continues`).

    With --backends: show context, longest answer, modalities, abilities and date of retirement of
    each backend's model, and where these facts come from; "?" is unknown.

    With --url: what the models of a running gateway route to, how their backends do, and what they
    cost in US dollars per million tokens.
    """
    if address is not None:
        _list_running(address, admin_key, adapter, alone=not (probing or knowing), as_json=as_json)
        return
    if knowing:
        _check_configured("--backends", adapter)
        if probing:
            raise click.UsageError("give --backends or --probe")
        found = known_backends(load(path))
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(list(found))))
        else:
            show(facts_table(found))
        return
    if probing:
        _check_configured("--probe", adapter)
        if as_json:
            raise click.UsageError("--probe prints a table; omit --json")
        _probe(load(path), timeout_s)
        return
    with faults_shown():
        registry = Registry()
    names = (*registry.names, *WITHOUT_WIRE)
    if adapter is not None and adapter not in names:
        raise click.UsageError(f"no adapter is named {adapter!r}{nearest(adapter, names)}")
    if as_json:
        wanted = names if adapter is None else (adapter,)
        described = [_described(registry, name) for name in wanted]
        shown = described if adapter is None else described[0]
        click.echo(msgspec.json.format(msgspec.json.encode(shown)))
    elif adapter is None:
        show(_overview(registry, names))
    else:
        show(_fields(supported(registry, adapter)))


def _probe(config: Config, timeout_s: float) -> None:
    with Console(file=unguarded(sys.stderr)).status("Requesting one token from every backend"):
        results = probe(config, timeout_s=timeout_s)
    show(report(results))
    if not all(one.fine for one in results):
        sys.exit(1)


def _list_running(
    address: Address, admin_key: str, adapter: str | None, *, alone: bool, as_json: bool
) -> None:
    if adapter is not None or not alone:
        raise click.UsageError("--url lists the gateway's models; omit ADAPTER and other options")
    found = running_models(address, admin_key)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        show(models_table(found))


def supported(registry: Registry, name: str) -> Supports:
    """The adapter's capabilities at its default base URL. Raises Faults for a broken plug-in."""
    if name == LOCAL:
        from strowger_gateway.gateway.backends.upstream.local_capabilities import LOCAL_SUPPORTS

        return LOCAL_SUPPORTS
    if name == GUARDRAILS:
        from strowger_gateway.gateway.content.guardrails.own_moderation import OWN_SUPPORTS

        return OWN_SUPPORTS
    endpoint = Endpoint(name=name, base_url=registry.base_url(name) or ANYWHERE)
    with faults_shown():
        return registry.build(name, endpoint).supports


def _check_configured(option: str, adapter: str | None) -> None:
    if adapter is not None:
        raise click.UsageError(f"{option} uses the configured backends; omit ADAPTER")


def _described(registry: Registry, name: str) -> AdapterDescription:
    base_url = "" if name in WITHOUT_WIRE else registry.base_url(name)
    return describe_adapter(name, base_url, supported(registry, name))


def _overview(registry: Registry, names: tuple[str, ...]) -> Table:
    table = table_of("ADAPTER", "TASKS", "UNKNOWN FIELDS", "BASE URL")
    for name in names:
        supports = supported(registry, name)
        tasks = [task for task in FIELDS if offered(supports, task) is not None]
        here = name in WITHOUT_WIRE
        url = "this machine" if here else registry.base_url(name) or "required"
        table.add_row(escape(name), ", ".join(tasks), _unknown(supports), escape(url))
    return table


def _unknown(supports: Supports) -> str:
    """Describe how unknown fields are handled."""
    if supports.extra:
        return "passed on"
    return "rejected, except a few" if supports.extra_fields else "rejected"


def _fields(supports: Supports) -> Table:
    tasks: list[Task] = [task for task in FIELDS if offered(supports, task) is not None]
    table = table_of("FIELD", *(task.upper() for task in tasks), "RANGE")
    for field in sorted({field for task in tasks for field in FIELDS[task]}):
        marks = [_mark(field, task, supports) for task in tasks]
        bounds = supports.ranges.get(field)
        words = [describe_range(bounds) if bounds else ""]
        if field in supports.requires:
            words.insert(0, "required")
        table.add_row(field, *map(escape, marks), ", ".join(filter(None, words)))
    few = supports.extra_fields
    for field in sorted({field for task in tasks for field in few.get(task, ())}):
        table.add_row(field, *("yes" if field in few.get(task, ()) else "" for task in tasks), "")
    return table


def _mark(field: str, task: Task, supports: Supports) -> str:
    """Blank if the task has no such field."""
    if field not in FIELDS[task]:
        return ""
    sent = sent_as(supports, task, field)
    if sent is None:
        return "no"
    return f"as {sent}" if sent else "yes"
