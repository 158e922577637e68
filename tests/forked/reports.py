"""In a worker: sends the report of a test's call, and of its fixtures only what matters.

pytest-xdist also reports that a test begins, its fixtures, and that it ends: six messages per test,
which cost both processes more than a small test does.
"""

import pytest
from _pytest.runner import runtestprotocol

from tests.forked.cpu_time import PROPERTY, cpu_s

LONG_S = 0.1
"""A fixture that takes longer is reported, too: `--durations` lists it."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test; report its call, and what failed, was skipped or took long besides."""
    before = cpu_s()
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    spent = [(PROPERTY, cpu_s() - before)]
    for report in reports:
        if report.when == "call" or not report.passed or report.duration >= LONG_S:
            report.keywords = {}
            report.user_properties += spent
            spent = []
            item.ihook.pytest_runtest_logreport(report=report)
    return True
