"""Shows at the end of a run in workers which files and folders took the most CPU time.

Durations contain what a test waits for, and seven workers share two cores. The time of processes
that tests started counts once they have ended; a fixture's counts for the test that needed it.
"""

import resource
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

import pytest

PROPERTY: Final = "cpu_s"
SHOWN: Final = 20
"""Files, and as many folders."""


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
        """Return a table of the files that took most, of the folders that did, and of all."""
        if not self._seconds:
            return []
        folders, inside = defaultdict[str, float](float), Counter[str]()
        for file, spent in self._seconds.items():
            folder = file.rpartition("/")[0]
            folders[folder] += spent
            inside[folder] += self._tests[file]
        tests = self._tests | inside | Counter({"all files": self._tests.total()})
        rows = [*_most(self._seconds), *_most(folders), ("all files", sum(folders.values()))]
        return [f"{spent:8.1f} s {tests[name]:6} tests  {name}" for name, spent in rows]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if lines := self.lines():
            terminalreporter.section("CPU time of tests", sep="=")
            for line in lines:
                terminalreporter.line(line)


def _most(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda row: -row[1])[:SHOWN]
