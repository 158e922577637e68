"""docs/architecture.md shows the walk of a chat request as it is."""

import re
from pathlib import Path

import pytest
from msgspec import Struct

from tests.imports import HOUSE
from tests.walk import OUTSIDE, Entry, runs, traced

MOST_FILES, MOST_ENTRIES = 45, 3
AT_TIMES = re.compile(r"`(\w+(?:\.\w+)*)` \(at times\)")
ROW = re.compile(r"^\| (\d+) \| `([\w/]+\.py)` \| (.*?) \| .+ \|$", re.MULTILINE)


class Step(Struct, frozen=True, kw_only=True):
    """A documented file. at_times: functions entered by some requests only."""

    number: int
    file: str
    functions: frozenset[str]
    at_times: frozenset[str]


def documented() -> list[Step]:
    return [
        Step(
            number=int(number),
            file=file,
            functions=frozenset(re.findall(r"`([\w.]+)`", functions)),
            at_times=frozenset(AT_TIMES.findall(functions)),
        )
        for number, file, functions in ROW.findall(HOUSE.read_text())
    ]


async def test_a_chat_request_takes_the_documented_walk(tmp_path: Path) -> None:
    entries = await traced(tmp_path)
    steps = {step.file: step for step in documented()}

    assert files_of(entries) - steps.keys() == set(), "files that the walk does not name"
    required = {file for file, step in steps.items() if step.functions - step.at_times}
    assert required - files_of(entries) == set(), "documented files that are not entered"
    for file, step in steps.items():
        entered = {one.function for one in entries if one.file == file}
        inside = {one.function for one in entries if one.file == file and one.caller != OUTSIDE}
        assert inside - step.functions == set(), f"functions of {file} that the walk does not name"
        assert step.functions - step.at_times - entered == set(), f"{file} is not entered there"


async def test_the_walk_is_in_the_order_in_which_files_are_opened(tmp_path: Path) -> None:
    entries = await traced(tmp_path)
    steps = [step for step in documented() if step.functions - step.at_times]

    opened = list(runs([one for one in entries if one.file in {step.file for step in steps}]))

    assert [step.file for step in steps] == opened
    assert [step.number for step in documented()] == list(range(1, len(documented()) + 1))


async def test_the_walk_stays_short_and_returns_rarely(tmp_path: Path) -> None:
    found = runs(await traced(tmp_path))

    assert len(documented()) <= MOST_FILES
    assert {file: times for file, times in found.items() if times > MOST_ENTRIES} == {}


def files_of(entries: list[Entry]) -> set[str]:
    return {one.file for one in entries}


pytestmark = pytest.mark.anyio
