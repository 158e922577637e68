"""The shape of `audit` in config.yaml: who changed what, and for how long that is kept."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import KIB, MIB, Count, Path


class Audit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows in the store about what operators do.

    file:      every row is also written to it as a line of JSON.
    keep_days: of rows in the store; `None`: for ever.
    max_waiting_bytes: of the files in which events wait while the store is unreachable.
    """

    log: Literal["on", "off"] = "on"
    file: Path | None = None
    keep_days: Count | None = None
    max_waiting_bytes: Annotated[int, Meta(ge=256 * KIB, extra={"size": True})] = 64 * MIB
