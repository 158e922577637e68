"""Look up the backends of a configuration in the catalogue, when it is loaded."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from strowger_gateway.gateway.config.adapter_names import Defaults
from strowger_gateway.gateway.config.aws import aws_base_url
from strowger_gateway.gateway.config.checks.routing import reachable
from strowger_gateway.gateway.config.model_patterns import overlap
from strowger_gateway.gateway.config.price_catalogue.table import (
    DatedPrice,
    ListedModels,
    read_price_table,
)
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.config.schema.prices import CatalogueRow, Price

_NO_VENDOR: Final = "the catalogue knows no vendor at this address"
_NO_MODEL: Final = "the catalogue does not know this model of the vendor"


def with_catalogue(config: Config, adapters: Mapping[str, Defaults]) -> Config:
    """Return the configuration with the catalogue's rows, unless it is turned off.

    The rows are of the backends for which the operator has none. Workers get them with the
    configuration, so that only the process that loads it reads the table.
    """
    if config.prices_from != "catalogue":
        return config
    addresses = {one.name: _address(one, adapters) for one in config.providers}
    catalogue = Catalogue(datetime.now(UTC).date())
    rows: list[CatalogueRow] = []
    for backend in dict.fromkeys(reachable(config)):
        if not any(overlap(backend, row.match) for row in config.prices):
            provider, _, model = backend.partition("/")
            rows.append(catalogue.row(backend, addresses.get(provider, ""), model))
    return replace(config, catalogue=tuple(rows))


def _address(provider: Provider, adapters: Mapping[str, Defaults]) -> str:
    """The base URL in effect; "" for an adapter that does not exist, which is a fault elsewhere."""
    known = adapters.get(provider.adapter)
    return provider.base_url or (known.base_url if known else "") or aws_base_url(provider)


class Catalogue:
    """What the table says on a day. Keep no reference to it in a serving process."""

    def __init__(self, day: date) -> None:
        """day: in UTC, on which prices are valid."""
        self._day, self._table = day, read_price_table()
        self._models = ListedModels(self._table)
        self._source = f"{self._table.source}, read on {self._table.made.isoformat()}"

    def row(self, backend: str, base_url: str, model: str) -> CatalogueRow:
        """Find the price of a backend. model: the vendor's name of it."""
        vendor = self._table.vendor_at(base_url)
        if vendor is None:
            return CatalogueRow(backend=backend, source=self._source, unknown=_NO_VENDOR)
        listed = self._models.find(vendor, model)
        found = DatedPrice(unknown=_NO_MODEL) if listed is None else listed.price_on(self._day)
        return CatalogueRow(
            backend=backend,
            price=_price(found, backend),
            source=self._source,
            url=vendor.url,
            since="" if found.since is None else found.since.isoformat(),
            unknown=found.unknown,
        )


def _price(found: DatedPrice, backend: str) -> Price | None:
    if found.price is None:
        return None
    return msgspec.convert({**found.price, "match": backend}, Price)
