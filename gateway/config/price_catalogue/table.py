"""Read the table of published prices, and find a model in it.

`make prices` writes the file from genai-prices, a package of prices that its authors read from the
vendors' pages (tools/price_table.py).
"""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

FILE: Final = Path(__file__).with_name("prices.json")


class Match(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which names of models mean a model. Exactly one field is set; texts are in lower case.

    regex: is searched anywhere in the name.
    """

    equals: str | None = None
    starts_with: str | None = None
    ends_with: str | None = None
    contains: str | None = None
    regex: str | None = None
    any_of: tuple["Match", ...] = ()
    all_of: tuple["Match", ...] = ()

    def accepts(self, name: str) -> bool:
        """Whether a name, in lower case, means the model."""
        if self.equals is not None:
            return name == self.equals
        if self.starts_with is not None:
            return name.startswith(self.starts_with)
        if self.ends_with is not None:
            return name.endswith(self.ends_with)
        if self.contains is not None:
            return self.contains in name
        if self.regex is not None:
            return re.search(self.regex, name) is not None
        if self.any_of:
            return any(one.accepts(name) for one in self.any_of)
        return all(one.accepts(name) for one in self.all_of)


class DatedPrice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The price of a model from a day on.

    start: the day; `None`: valid before all others.
    since: the day on which the vendor's price begins, which is earlier than `start` if only the
           price of a service tier changes; `None` if the source names none.
    price: the fields of `Price` but `match`; `None` if it is unknown.
    unknown: why; "" if it is known.
    """

    start: date | None = None
    since: date | None = None
    price: dict[str, object] | None = None
    unknown: str = ""


class ListedModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """prices: in the order of time, at least one."""

    id: str
    match: Match
    prices: tuple[DatedPrice, ...]

    def price_on(self, day: date) -> DatedPrice:
        """The price that is valid on a day."""
        return next(one for one in reversed(self.prices) if one.start is None or one.start <= day)


class PricedVendor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vendor and its models, of which the first that matches a name counts.

    address: regular expression for the beginning of a `base_url`. url: its page of prices, or "".
    fallbacks: ids of the vendors whose models it offers, too, at their prices.
    models: read with `ListedModels`; few configurations need those of more than three vendors.
    """

    id: str
    address: str
    url: str
    fallbacks: tuple[str, ...] = ()
    models: Raw


class PriceTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """source: the package and its version. made: the day on which the table was made from it."""

    source: str
    url: str
    made: date
    vendors: tuple[PricedVendor, ...]

    def vendor_at(self, base_url: str) -> PricedVendor | None:
        """The vendor at an address; `None` if there is none."""
        return next((one for one in self.vendors if re.match(one.address, base_url)), None)


def read_price_table() -> PriceTable:
    """Read the file, a millisecond. Keep no reference to it in a serving process."""
    return _table(FILE.read_bytes())


_table = msgspec.json.Decoder(PriceTable).decode
_models = msgspec.json.Decoder(tuple[ListedModel, ...]).decode


class ListedModels:
    """The models of the vendors that a configuration uses; each vendor's are decoded once."""

    def __init__(self, table: PriceTable) -> None:
        self._vendors = {one.id: one for one in table.vendors}
        self._decoded: dict[str, tuple[ListedModel, ...]] = {}

    def find(self, vendor: PricedVendor, name: str) -> ListedModel | None:
        """The model that a vendor means by a name; `None` if the table does not know it."""
        for spelling in _spellings(name.lower()):
            for vendor_id in (vendor.id, *vendor.fallbacks):
                for model in self.of(vendor_id):
                    if model.match.accepts(spelling):
                        return model
        return None

    def of(self, vendor_id: str) -> tuple[ListedModel, ...]:
        models = self._decoded.get(vendor_id)
        if models is None:
            models = self._decoded[vendor_id] = _models(self._vendors[vendor_id].models)
        return models


_COMPACT_DATE: Final = re.compile(r"-(20\d\d)(\d\d)(\d\d)(?=-|:|$)")


def _spellings(name: str) -> Iterator[str]:
    """Yield a name, and with its dates as the table writes them: `-2025-12-11` for `-20251211`."""
    yield name
    dashed = _COMPACT_DATE.sub(_dashed, name)
    if dashed != name:
        yield dashed


def _dashed(found: re.Match[str]) -> str:
    year, month, day = found.groups()
    try:
        date(int(year), int(month), int(day))
    except ValueError:  # other digits, which are no date
        return found.group()
    return f"-{year}-{month}-{day}"
