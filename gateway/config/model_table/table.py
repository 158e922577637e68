"""Read the table of published facts, and pick the rows of a configuration's backends."""

from collections.abc import Mapping
from datetime import date
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.config.checks.routing import reachable
from strowger_gateway.gateway.config.model_table.spellings import spellings
from strowger_gateway.gateway.config.schema.capabilities import Modality, PublishedFacts
from strowger_gateway.gateway.config.schema.config import Config, Provider

FILE: Final = Path(__file__).with_name("models.json")


class Publication(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A publication that rows were read from. what: its name and version."""

    name: str
    what: str
    url: str


class Vendor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """hosts: of the addresses that serve its models; `*` matches any characters."""

    name: str
    hosts: tuple[str, ...]


class TableRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is published about one model of a vendor; what is absent is unknown.

    context: tokens of prompt and answer together, or of the longest prompt if only that is known.
    url: the page that the source names, or the source's own. source: names of sources.
    date: when the source was read.
    """

    id: str
    context: int | None = None
    max_output: int | None = None
    input: tuple[Modality, ...] | None = None
    output: tuple[Modality, ...] | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    structured_output: bool | None = None
    retires: date | None = None
    url: str
    source: str
    date: date


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """models: the rows of each vendor, by its name; read with `rows`."""

    sources: tuple[Publication, ...]
    vendors: tuple[Vendor, ...]
    models: dict[str, Raw]

    def rows(self, vendor: str) -> dict[str, TableRow]:
        """The rows of one vendor, by id: few configurations need those of more than three."""
        return {row.id: row for row in _rows(self.models[vendor])}


_rows = msgspec.json.Decoder(list[TableRow]).decode


def read_table() -> Table:
    """Read the file, a millisecond. Keep no reference to it in a serving process."""
    return msgspec.json.decode(FILE.read_bytes(), type=Table)


def with_published_facts(config: Config) -> Config:
    """Return the configuration with the table's rows for its backends.

    Workers get the rows with the configuration, so that only the process that loads it reads the
    table. A provider with a wildcard backend gets all rows of its vendor.
    """
    hosts = {one.name: _host(one) for one in config.providers}
    if not any(hosts.values()):
        return config
    table = read_table()
    owners = {name: _vendor(table, host) for name, host in hosts.items()}
    rows = {vendor: table.rows(vendor) for vendor in set(owners.values()) if vendor}
    names = {one.name: one.what for one in table.sources}
    found: dict[str, PublishedFacts] = {}
    for backend in dict.fromkeys(reachable(config)):
        provider, _, model = backend.partition("/")
        own = rows.get(owners.get(provider, ""), {})
        if model.endswith("*"):
            for row in own.values():
                name = f"{provider}/{row.id}"
                found[name] = _facts(name, row, names)
        elif (row := _row(own, model)) is not None:
            found[backend] = _facts(backend, row, names)
    return replace(config, published=tuple(found.values()))


def _host(provider: Provider) -> str:
    """The host's name; "" if it is an IP address, at which the table has no vendor."""
    try:
        host = (urlsplit(provider.base_url or "").hostname or "").lower()
    except ValueError:  # a malformed address, which the upstream reports
        return ""
    return "" if ":" in host or host.rpartition(".")[2].isdigit() else host


def _vendor(table: Table, host: str) -> str:
    """The vendor at a host; "" if there is none."""
    matches = partial(fnmatchcase, host)
    return next((one.name for one in table.vendors if any(map(matches, one.hosts))), "")


def _row(rows: Mapping[str, TableRow], model: str) -> TableRow | None:
    """The row of a model; `None` if there is none."""
    found = (rows.get(name) for name in spellings(model))
    return next((row for row in found if row is not None), None)


def _facts(backend: str, row: TableRow, names: Mapping[str, str]) -> PublishedFacts:
    read = ", ".join(names[name] for name in row.source.split(", "))
    return PublishedFacts(
        backend=backend,
        context=row.context,
        max_output=row.max_output,
        input=row.input,
        output=row.output,
        tools=row.tools,
        reasoning=row.reasoning,
        structured_output=row.structured_output,
        retires=None if row.retires is None else row.retires.isoformat(),
        source=f"{read}, read on {row.date.isoformat()}",
        url=row.url,
    )
