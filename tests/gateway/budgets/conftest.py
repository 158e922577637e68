"""No file here spans a midnight at which a period begins."""

import time

import pytest

DAY_S = 86_400
ENDS_S = (0, int(18.5 * 3600))
"""Seconds after midnight in UTC at which a day, and with it a month, ends in UTC and in Kolkata."""

LONGEST_S = 120
"""A file takes less, on a busy machine, too."""


@pytest.fixture(scope="module", autouse=True)
def within_one_period() -> None:
    """Wait for the period's end if the file could meet it: rare, and at most for `LONGEST_S`."""
    left = min((end - time.time()) % DAY_S for end in ENDS_S)
    if left < LONGEST_S:
        time.sleep(left + 0.1)
