"""No file here spans a midnight at which a period begins."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def all_within_one_period(within_one_period: None) -> None:
    """For every file."""
