"""Periods in all time zones: each moment is in one, and one follows the other without a gap."""

import random
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest

from strowger_gateway.gateway.config.schema.budgets import Per
from strowger_gateway.gateway.governance.budgets.calendar import period_of

CLOCKS = [
    ("day", "America/New_York", "2026-03-08T12:00-04:00", "2026-03-08T00:00-05:00", 23),
    ("day", "America/New_York", "2026-11-01T12:00-05:00", "2026-11-01T00:00-04:00", 25),
    ("day", "America/Santiago", "2026-09-06T12:00-03:00", "2026-09-06T01:00-03:00", 23),
    ("week", "Europe/Berlin", "2026-03-29T23:59+02:00", "2026-03-23T00:00+01:00", 167),
    ("month", "Asia/Kolkata", "2026-02-28T23:59+05:30", "2026-02-01T00:00+05:30", 28 * 24),
    ("month", "Asia/Kathmandu", "2026-12-31T23:59+05:45", "2026-12-01T00:00+05:45", 31 * 24),
]


@pytest.mark.parametrize(("per", "zone", "at", "begin", "hours"), CLOCKS)
def test_a_period_begins_at_midnight_and_lasts_as_long_as_the_clocks_say(
    per: Per, zone: str, at: str, begin: str, hours: int
) -> None:
    period = period_of(per, zone, datetime.fromisoformat(at).timestamp())

    assert period.begin == datetime.fromisoformat(begin).timestamp()
    assert (period.end - period.begin) / 3600 == hours


def test_every_moment_is_in_one_period_of_every_time_zone() -> None:
    draws = random.Random(1)
    for zone in sorted(available_timezones()):
        for per in ("day", "week", "month"):
            at = draws.uniform(1.6e9, 2.2e9)
            period = period_of(per, zone, at)
            begin = datetime.fromtimestamp(period.begin, ZoneInfo(zone))

            assert period.has(int(at))
            assert period.begin % 900 == 0
            assert (begin.hour, begin.minute) in ((0, 0), (1, 0))
            assert period_of(per, zone, period.end).begin == period.end


def test_a_total_never_ends() -> None:
    assert period_of("total", "UTC", 4e9).resets is None
    assert period_of("total", "UTC", 4e9).has(0)
