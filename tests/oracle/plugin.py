"""Makes a test fail that sent a vendor what it refuses, and counts what was judged in a run.

    @pytest.mark.vendor_refuses("chat-roles", because="the server's own answer is what is tested")

exempts a test from rules, by their names in rules.toml; `schema` and `json` are such names, too.
"""

import json
import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import pytest
from xdist.workermanage import WorkerController

from tests.oracle.oracle import ORACLE, Refusal

MARKER: Final = "vendor_refuses"
OPEN: Final[frozenset[str]] = frozenset()
"""Rules with known faults: these are counted, and fail no test until the faults are gone."""

EVERY_RUN: Final[Mapping[str, int]] = {
    "openai-chat": 1600,
    "gemini-generate": 120,
    "anthropic-messages": 110,
    "bedrock-converse": 90,
    "openai-completions": 90,
    "cohere-chat": 70,
    "ollama-chat": 70,
    "openai-responses": 70,
    "anthropic-vertex": 40,
    "openai-embeddings": 20,
}
"""The least number of requests that a run of the whole suite judges, by API: about half."""

REPORT: Final = os.environ.get("STROWGER_ORACLE_REPORT", "")
"""The beginning of files that get every refusal as a line of JSON, "" for none."""

SHOWN: Final = 5
"""Refusals of one test that are written out."""


class Plugin:
    """One per process: workers send their counts to the process that shows them."""

    def __init__(self, config: pytest.Config, known: frozenset[str] = OPEN) -> None:
        self._config = config
        self._known = known
        self._judged = Counter[str]()
        self._refused = Counter[str]()
        self._problems: list[str] = []
        config.addinivalue_line("markers", f"{MARKER}(*rules, because): see tests/oracle/plugin.py")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Judge what was sent since the last test; a test that has failed says so itself."""
        try:
            yield
        finally:
            refused = list(ORACLE.judge())
            for one in refused:
                self._refused[one.rule] += 1
                _report(item, one)
        exempt = set(_exemptions(item))
        faults = [one for one in refused if one.rule not in exempt | self._known]
        if faults:
            more = f"\n… and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
            told = "\n".join(str(one) for one in faults[:SHOWN])
            pytest.fail(f"vendors refuse what this test makes us send:\n{told}{more}", False)

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for (api, vendor), count in ORACLE.judged.items():
            self._judged[f"{api} {vendor or '?'}"] += count
        output = cast("dict[str, object] | None", getattr(self._config, "workeroutput", None))
        if output is not None:
            output["oracle"] = [dict(self._judged), dict(self._refused)]
            return
        if _is_whole(self._config) and session.exitstatus == pytest.ExitCode.OK:
            self._problems = list(self._lacks())
            if self._problems:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        output = cast("dict[str, object]", getattr(node, "workeroutput", {}))
        for counter, counts in zip(
            (self._judged, self._refused),
            cast("list[dict[str, int]]", output.get("oracle", ())),
            strict=False,
        ):
            counter.update(counts)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        judged, refused = self._judged.total(), self._refused.total()
        if not judged:
            return
        by_api = ", ".join(f"{name} {count}" for name, count in self._judged.most_common())
        by_rule = ", ".join(f"{name} {count}" for name, count in self._refused.most_common())
        terminalreporter.write_line(f"oracle: {judged} requests to vendors judged ({by_api})")
        terminalreporter.write_line(f"oracle: {refused} faults{f' ({by_rule})' if refused else ''}")
        for problem in self._problems:
            terminalreporter.write_line(f"oracle: {problem}", red=True)

    def _lacks(self) -> Iterator[str]:
        """Say which API was asked less often than it is in every run."""
        counts = Counter[str]()
        for name, count in self._judged.items():
            counts[name.partition(" ")[0]] += count
        for api, least in EVERY_RUN.items():
            if counts[api] < least:
                yield f"only {counts[api]} requests of {api}, not {least}: does it see them all?"


def _exemptions(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers(MARKER):
        if not marker.kwargs.get("because"):
            raise pytest.UsageError(f"{item.nodeid}: {MARKER} needs a `because`")
        yield from cast("tuple[str, ...]", marker.args)


def _is_whole(config: pytest.Config) -> bool:
    """Whether this is a run of all tests but the nightly ones."""
    if config.getoption("collectonly"):
        return False
    chosen = config.getoption("keyword") or config.getoption("fast")
    whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    return whole and not chosen and config.getoption("markexpr") == "not nightly"


def _report(item: pytest.Item, one: Refusal) -> None:
    if REPORT:
        told = {"test": item.nodeid, "body": one.body.decode(errors="replace")[:5000]}
        told |= {
            name: getattr(one, name) for name in ("api", "vendor", "path", "rule", "at", "says")
        }
        with Path(f"{REPORT}.{os.getpid()}").open("a") as file:
            file.write(json.dumps(told) + "\n")
