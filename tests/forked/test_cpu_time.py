"""A run in workers says which files took the most CPU time, with the processes they started."""

import subprocess
import sys

import pytest

from tests.forked.cpu_time import PROPERTY, CpuTime, cpu_s


def test_a_process_that_has_ended_counts_for_who_started_it() -> None:
    before = cpu_s()
    subprocess.run([sys.executable, "-c", "for _ in range(10**6): pass"], check=True)

    assert cpu_s() - before > 0.001


def test_files_and_folders_are_in_the_order_of_their_cpu_time_and_summed_up() -> None:
    shown = CpuTime()
    for file, seconds in (("tests/a.py", 1.0), ("tests/b.py", 1.5), ("tests/a.py", 0.75)):
        report = pytest.TestReport(
            nodeid=f"{file}::test",
            location=(file, 0, "test"),
            keywords={},
            outcome="passed",
            longrepr=None,
            when="call",
            user_properties=[("other", "text"), (PROPERTY, seconds)],
        )
        shown.pytest_runtest_logreport(report)

    assert [line.split() for line in shown.lines()] == [
        ["1.8", "s", "2", "tests", "tests/a.py"],
        ["1.5", "s", "1", "tests", "tests/b.py"],
        ["3.2", "s", "3", "tests", "tests"],
        ["3.2", "s", "3", "tests", "all", "files"],
    ]


def test_a_run_without_workers_says_nothing() -> None:
    assert CpuTime().lines() == []
