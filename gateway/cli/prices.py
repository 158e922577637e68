"""`strowger prices`: the price of each backend, and where it comes from."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from msgspec import Struct
from rich.markup import escape

from strowger_gateway.gateway.assembly.wiring.prices import prices_of
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, load
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.prices import Price


class ShownPrice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The price of one backend of a model.

    source: the row of the configuration, or the catalogue with its version; "" if unknown.
    since, url: of the catalogue's price. unknown: why the price is unknown.
    stated: the vendor's answers state their cost, which wins over the price.
    """

    model: str
    backend: str
    price: Price | None = None
    source: str = ""
    since: str = ""
    url: str = ""
    unknown: str = ""
    stated: bool = False


@click.command()
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_option
def prices(model: str | None, as_json: bool, path: Path) -> None:
    """Show the price of each backend, or of MODEL's, in US dollars per million tokens.

    SOURCE is the row of the configuration, or the catalogue with its version and the vendor's page.
    """
    config = load(path)
    names = [one.name for one in config.models]
    if model is not None and model not in names:
        raise Faults((f"no model is named {model!r}{nearest(model, names)}",))
    shown = [one for one in _shown(config) if model in (None, one.model)]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(shown)))
    else:
        _table(shown)


def _shown(config: Config) -> Iterator[ShownPrice]:
    known = prices_of(config)
    rows = {row.match: index for index, row in enumerate(config.prices)}
    catalogue = {row.backend: row for row in config.catalogue}
    for model in config.models:
        for ref in model.backends:
            backend = f"{ref.provider}/{ref.model}"
            found, listed = known.of(backend), catalogue.get(backend)
            price = found.row if found is not None else None
            shown = ShownPrice(
                model=model.name,
                backend=backend,
                price=price,
                stated=found is not None and found.reports,
            )
            if price is not None and listed is None:
                shown = msgspec.structs.replace(shown, source=f"prices[{rows[price.match]}]")
            elif listed is not None:
                shown = msgspec.structs.replace(
                    shown,
                    source=listed.source,
                    since=listed.since,
                    url=listed.url,
                    unknown=listed.unknown,
                )
            elif price is None:
                shown = msgspec.structs.replace(shown, unknown="no row of prices matches it")
            yield shown


def _table(shown: list[ShownPrice]) -> None:
    table = table_of("MODEL", "BACKEND", "INPUT", "CACHED", "OUTPUT", "ABOVE", "SINCE", "SOURCE")
    for one in shown:
        price = one.price
        notes = [one.source, one.url, one.unknown, "stated by the vendor" if one.stated else ""]
        table.add_row(
            escape(one.model),
            escape(one.backend),
            "?" if price is None else f"{price.input:g}",
            "" if price is None or price.cached_input is None else f"{price.cached_input:g}",
            "?" if price is None else f"{price.output:g}",
            "" if price is None else ", ".join(f"{tier.above:,}" for tier in price.tiers),
            one.since,
            escape(", ".join(note for note in notes if note)),
        )
    show(table)
