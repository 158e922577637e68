"""The retry delay is read from every header that can contain it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.retry_after import LONGEST_S, retry_after

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": " 3 "}, 3.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "1e20"}, None),
        ({"retry-after": "1_0"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "9" * 200}, LONGEST_S),
        ({"retry-after": "9" * 100_000}, None),
        ({"retry-after-ms": "-1", "retry-after": "4"}, 4.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359", "date": DATE}, LONGEST_S),
        ({"retry-after": "1893456000"}, LONGEST_S),
        ({"retry-after": "1e308"}, None),
        ({"retry-after": "Wed, 21 Oct 2037 07:28:00 GMT", "date": DATE}, LONGEST_S),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "later", "retry-after": "2"}, 2.0),
        ({"retry-after": DATE, "date": "Wed, 21 Oct 2026 07:27:30 GMT"}, 30.0),
        ({"retry-after": DATE, "date": "Wed, 21 Oct 2026 07:29:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 -0000", "date": DATE}, 0.0),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359", "date": DATE}, 0.0),
        ({"retry-after": "Mon, 01 Jan 2026 00:00:00 +99999999999", "date": DATE}, None),
        ({"retry-after": DATE}, None),
        ({"retry-after": DATE, "date": "yesterday"}, None),
        ({"retry-after": "Wed, 99 Oct 2026 07:28:00 GMT", "date": DATE}, None),
    ],
)
def test_seconds_milliseconds_and_dates_are_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_a_date_is_measured_from_the_time_that_is_given() -> None:
    now = datetime(2026, 10, 21, 7, 27, 0, tzinfo=UTC)

    assert retry_after({"retry-after": DATE, "date": DATE}, now) == 60.0


@given(st.text(), st.text())
def test_no_header_is_too_odd(value: str, date: str) -> None:
    seconds = retry_after({"retry-after": value, "date": date})

    assert seconds is None or 0 <= seconds <= LONGEST_S
