"""docs/architecture.md shows three requests as they are: their files, their bounds, their story."""

import asyncio
import re
from collections.abc import Mapping

import pytest
from msgspec import Struct

from strowger_gateway.gateway.config.load import read_config
from tests.imports import HOUSE, ROOT
from tests.walk import OUTSIDE, WALKS, Entry, Walk, runs, story, traced

AT_TIMES = re.compile(r"`(\w+(?:\.\w+)*)` \(at times\)")
ROW = re.compile(r"^\| (\d+) \| `([\w/]+\.py)` \| (.*?) \| .+ \|$", re.MULTILINE)
APART = re.compile(r"apart from\s(.*?)\. In addition", re.DOTALL)
BOUNDS = re.compile(
    r"at\s+most\s+(\d+)\s+files,\s+and\s+no\s+file\s+is\s+entered\s+more\s+than\s+(\w+)"
)
ENDS = re.compile(r"(\d{3}) `(\w+)`")
CODE = re.compile(r"^### `(\w+)`\n\n- Status: (\d+)", re.MULTILINE)
BARE = WALKS["bare"]


class Step(Struct, frozen=True, kw_only=True):
    """A documented file. at_times: functions entered by some requests only."""

    number: int
    file: str
    functions: frozenset[str]
    at_times: frozenset[str]

    @property
    def required(self) -> frozenset[str]:
        """Those that every such request enters."""
        return self.functions - self.at_times


class Traced(Struct, frozen=True, kw_only=True):
    """A walk with the entries of one request."""

    walk: Walk
    entries: list[Entry]

    @property
    def files(self) -> set[str]:
        return {one.file for one in self.entries}


@pytest.fixture(scope="module", params=list(WALKS))
def taken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    walk = WALKS[str(request.param)]
    entries = asyncio.run(traced(walk, tmp_path_factory.mktemp("walk")))
    return Traced(walk=walk, entries=entries)


def section(walk: Walk) -> str:
    """The text under the walk's heading, up to the next one."""
    _, _, rest = HOUSE.read_text().partition(f"{walk.heading}\n")
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(walk: Walk) -> list[Step]:
    """The walk's own table."""
    return [
        Step(
            number=int(number),
            file=file,
            functions=frozenset(re.findall(r"`([\w.]+)`", functions)),
            at_times=frozenset(AT_TIMES.findall(functions)),
        )
        for number, file, functions in ROW.findall(section(walk))
    ]


def shared(walk: Walk) -> Mapping[str, Step]:
    """The steps of the first table that the walk takes as well."""
    apart = {
        name for found in APART.findall(section(walk)) for name in re.findall(r"`(.*?)`", found)
    }
    steps = {} if walk is BARE else {step.file: step for step in rows(BARE)}
    assert apart <= steps.keys(), "it can only leave out what is in the first table"
    return {file: step for file, step in steps.items() if file not in apart}


def test_each_request_takes_the_documented_walk(taken: Traced) -> None:
    own, others = {step.file: step for step in rows(taken.walk)}, shared(taken.walk)

    assert taken.files - own.keys() - others.keys() == set(), "files that the walk does not name"
    required = {file for steps in (own, others) for file, step in steps.items() if step.required}
    assert required - taken.files == set(), "documented files that are not entered"
    for file in taken.files:
        named = [steps[file].functions for steps in (own, others) if file in steps]
        inside = {
            one.function for one in taken.entries if one.file == file and one.caller != OUTSIDE
        }
        assert inside.difference(*named) == set(), (
            f"functions of {file} that the walk does not name"
        )
    for file, step in own.items():
        entered = {one.function for one in taken.entries if one.file == file}
        assert step.required - entered == set(), f"{file} is not entered there"


def test_each_walk_is_in_the_order_in_which_files_are_opened(taken: Traced) -> None:
    steps = [step for step in rows(taken.walk) if step.required]
    own = {step.file: step.functions for step in steps}
    first = [one for one in taken.entries if one.file in own]

    assert [step.file for step in steps] == list(runs(first))
    numbers = [step.number for step in rows(taken.walk)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_each_walk_stays_short_and_returns_rarely(taken: Traced) -> None:
    walk, found = taken.walk, runs(taken.entries)
    named = {step.file for step in rows(walk)} | shared(walk).keys()

    assert len(named) <= walk.most_files
    assert {file: times for file, times in found.items() if times > walk.most_entries} == {}


@pytest.mark.parametrize("walk", WALKS.values(), ids=list(WALKS))
def test_the_page_names_the_bounds_of_each_walk(walk: Walk) -> None:
    words = {7: "seven"}
    times = words.get(walk.most_entries, str(walk.most_entries))

    assert BOUNDS.findall(section(walk)) == [(str(walk.most_files), times)]


def test_the_configuration_of_the_story_is_valid() -> None:
    secrets = {"APP_KEY": "sk-app-0123456789", "FIRST_KEY": "sk-first", "SECOND_KEY": "sk-second"}

    config = read_config(story(), source="config.yaml", env=secrets)

    assert [one.name for one in config.models] == ["chat"]


def test_the_story_has_ten_steps() -> None:
    told = HOUSE.read_text().partition("## The story of a request\n")[2].partition("\n### ")[0]

    numbers = [int(one) for one in re.findall(r"^(\d+)\. \*\*", told, re.MULTILINE)]

    assert numbers == list(range(1, 11))


def test_what_ends_a_request_early_has_the_status_and_the_code_of_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "errors.md").read_text()
    known = {(status, code) for code, status in CODE.findall(reference)}
    page = HOUSE.read_text().partition("### What can end it early\n")[2].partition("\n## ")[0]

    named = set(ENDS.findall(page))

    assert len(named) > 15
    assert named - known == set()
