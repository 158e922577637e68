"""The calendar periods of budgets: when the one of a moment begins, and when it ends."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import Per
from strowger_gateway.gateway.platform.time_zones import zone_named
from strowger_gateway.gateway.storage.sql.spend_rows import SLOT_S

FOREVER: Final = 1 << 60
"""The end of a period without one, in Unix seconds."""


class Period(Struct, frozen=True):
    """From `begin` until before `end`, Unix seconds. All clock changes are at whole slots."""

    begin: int
    end: int

    def has(self, slot: int) -> bool:
        return self.begin <= slot < self.end

    @property
    def resets(self) -> float | None:
        """When the next one begins; `None` if it never does."""
        return None if self.end == FOREVER else float(self.end)


TOTAL: Final = Period(0, FOREVER)


def period_of(per: Per, time_zone: str, at: float) -> Period:
    """The period that a moment is in. at: Unix seconds."""
    if per == "total":
        return TOTAL
    known = _last(per, time_zone)
    if not known or not known[0].has(int(at)):
        known[:] = [_found(per, time_zone, at)]
    return known[0]


@lru_cache(maxsize=256)
def _last(per: Per, time_zone: str) -> list[Period]:
    """The period that was asked for last, to be replaced: most moments are in the same one."""
    return []


def _found(per: Per, time_zone: str, at: float) -> Period:
    zone = zone_named(time_zone)
    day = datetime.fromtimestamp(at, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "week":
        day -= timedelta(days=day.weekday())
        after = day + timedelta(days=7)
    elif per == "month":
        day = day.replace(day=1)
        after = (day + timedelta(days=32)).replace(day=1)
    else:
        after = day + timedelta(days=1)
    return Period(_slot(day), _slot(after))


def _slot(local: datetime) -> int:
    """Unix seconds of a local midnight, fold 0; one that a clock change skips is the change."""
    begin = local.replace(fold=0).timestamp()
    return int(begin // SLOT_S) * SLOT_S
