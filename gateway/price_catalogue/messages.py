"""What the catalogue's program is asked, and what it answers."""

from msgspec import Struct

from gateway.config.schema.prices import CatalogueRow


class Asked(Struct, frozen=True, kw_only=True):
    """One backend: PROVIDER/MODEL, the vendor's address, and the vendor's name of the model."""

    backend: str
    base_url: str
    model: str


class Question(Struct, frozen=True, kw_only=True):
    """day: ISO date, on which the prices are valid."""

    day: str
    backends: tuple[Asked, ...]


class CatalogueAnswer(Struct, frozen=True, kw_only=True):
    rows: tuple[CatalogueRow, ...]
