"""The models of a running gateway: `strowger models --url`."""

from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.address import Address
from strowger_gateway.gateway.cli.http_client import fetch
from strowger_gateway.gateway.cli.tables import table_of
from strowger_gateway.gateway.console.models.summary import (
    MOST,
    ModelBackend,
    ModelSummaries,
    ModelSummary,
)


def running_models(address: Address, admin_key: str) -> ModelSummaries:
    """Read all pages. Raises Faults."""
    found: list[ModelSummary] = []
    while True:
        query = urlencode({"limit": MOST, "offset": len(found)})
        page = fetch(address, f"/admin/models?{query}", ModelSummaries, key=admin_key)
        found += page.models
        if len(found) >= page.total or not page.models:
            return msgspec.structs.replace(page, models=tuple(found))


def models_table(found: ModelSummaries) -> Table:
    """One row per backend; prices in US dollars per million tokens, "?" is unknown."""
    table = table_of(
        *("MODEL", "BACKEND", "WEIGHT", "STATE", "CONTEXT", "MAX OUTPUT"),
        *("INPUT", "CACHED", "OUTPUT", "PRICE FROM"),
    )
    for model in found.models:
        for one in model.backends:
            table.add_row(*map(escape, (model.name, *_cells(one))))
    return table


def _cells(one: ModelBackend) -> Iterator[str]:
    price = one.price
    yield f"{one.name} @ {one.replica}" if one.replica else one.name
    yield ", ".join(one.variants) or ("by rule" if one.share is None else f"{one.share:g}")
    yield one.state
    yield _count(one.context)
    yield _count(one.max_output)
    yield _dollars(price.input)
    yield "" if price.cached_input is None else f"{price.cached_input:g}"
    yield _dollars(price.output)
    yield ", ".join(note for note in (price.where, price.since, price.unknown) if note)


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens:,}"


def _dollars(price: float | None) -> str:
    return "?" if price is None else f"{price:g}"
