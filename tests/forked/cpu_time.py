"""Shows at the end of a run in workers which files of tests took the most CPU time.

Durations contain what a test waits for, and seven workers share two cores. The time of processes
that tests started counts once they have ended; a fixture's counts for the test that needed it.
"""

import resource
from collections import Counter, defaultdict
from typing import Final

import pytest

PROPERTY: Final = "cpu_s"
SHOWN: Final = 20
"""Files."""


def cpu_s() -> float:
    """Return the CPU time of this process and of its children that have ended, seconds."""
    spent = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        spent += usage.ru_utime + usage.ru_stime
    return spent


class CpuTime:
    """A plug-in of the process that shows the results of workers."""

    def __init__(self) -> None:
        self._seconds = defaultdict[str, float](float)
        self._tests = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, float):
                self._seconds[file] += value
                self._tests[file] += 1

    def lines(self) -> list[str]:
        """Return a table of the files that took most, and of all."""
        if not self._seconds:
            return []
        most = sorted(self._seconds.items(), key=lambda row: -row[1])
        rows = [*most[:SHOWN], ("all files", sum(self._seconds.values()))]
        tests = Counter({**self._tests, "all files": self._tests.total()})
        return [f"{seconds:8.1f} s {tests[file]:6} tests  {file}" for file, seconds in rows]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if lines := self.lines():
            terminalreporter.section("CPU time of tests", sep="=")
            for line in lines:
                terminalreporter.line(line)
