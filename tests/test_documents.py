"""Links between documents resolve, places in them exist, decision records share one form."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
INDEX = ROOT / "docs" / "index.md"
RECORDS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
RECORD = re.compile(
    r"# ADR (?P<number>\d+): .+\n\n- Status: .+\n- Date: \d{4}-\d\d-\d\d\n\n"
    r"## Context\n.+?\n## Decision\n.+?\n## Consequences\n.+",
    re.DOTALL,
)
RECORD_LINK = re.compile(r"^- \[(?P<title>[^]]+)]\((?P<file>[^)]+)\)$", re.MULTILINE)
GLOSSARY = re.compile(r"^## Glossary$(.*?)^## ", re.MULTILINE | re.DOTALL)
WORD = re.compile(r"[a-zA-Z][\w-]*")
PACKAGES = ("schemas", "adapters", "local_engine", "gateway")
PLACE = re.compile(r"`(?:strowger_gateway/)?([\w.-]+(?:/[\w.-]+)+)/?`")
MODULE = re.compile(r"\bpython -m ([\w.]+)")
TARGET = re.compile(r"(?:`|^|&& )make ([a-z][a-z-]*)", re.MULTILINE)
HISTORY = ("docs/adr/", "docs/field-log.md", "CHANGELOG.md")
"""Pages about what was once."""

CURRENT = [page for page in PAGES if not str(page.relative_to(ROOT)).startswith(HISTORY)]

NOT_HERE = {
    "deploy/compose/secrets",  # the reader makes it
    "tests/test_adapter.py",  # of an example
}
"""Places that pages name and the repository does not have."""

PROMISED = re.compile(r"`(tests/[^`:]*)(?:::(\w+))?`")


def anchors(page: Path) -> set[str]:
    """The headings' anchors, by GitHub's rule: lower case, no punctuation, hyphens for blanks."""
    text = FENCED.sub("", page.read_text("utf-8"))
    titles = (re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", title) for title in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> Iterator[str]:
    for place, anchor in LINK.findall(page.read_text("utf-8")):
        target = page.parent / place if place else page
        if not target.exists():
            yield place
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{place}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_document_leads_to_a_heading(page: Path) -> None:
    assert list(broken_links(page)) == []


@cache
def places() -> frozenset[str]:
    """Every file and folder of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [Path(file) for file in listed.stdout.splitlines()]
    return frozenset(str(place) for file in files for place in (file, *file.parents))


def unknown_places(text: str) -> list[str]:
    """Quoted paths within the repository that lead nowhere; NAMES in capitals are placeholders."""
    return [
        place
        for place in PLACE.findall(text)
        if place.partition("/")[0] in places()
        and place not in places() | NOT_HERE
        and not re.search(r"[A-Z]{2}|X\.Y\.Z", place.removesuffix(".md"))
    ]


def unknown_commands(text: str) -> list[str]:
    """Modules of the repository and targets of its Makefile that a page runs and that are not."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    modules = [
        module
        for module in MODULE.findall(text)
        if (path := module.removeprefix("strowger_gateway.").replace(".", "/"))
        and path.partition("/")[0] in places()
        and not places() & {f"{path}.py", f"{path}/__main__.py"}
    ]
    targets = [one for one in TARGET.findall(text) if f"\n{one}:" not in makefile]
    return [*modules, *targets]


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_module_and_target_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")

    assert unknown_places(text) == []
    assert unknown_commands(text) == []


def test_a_path_module_or_target_that_does_not_exist_is_found() -> None:
    text = "in `gateway/none/`, not in `docs/` or `adapters/VENDOR/`\n`python -m tools.none`\n"
    text += "make no-such-target\n`make test-fast`, `python -m pytest`, `python -m tests.walk`"

    assert unknown_places(text) == ["gateway/none"]
    assert unknown_commands(text) == ["tools.none", "no-such-target"]


def test_the_index_links_to_every_page_but_the_decision_records() -> None:
    docs = ROOT / "docs"
    pages = {page.resolve() for page in docs.rglob("*.md") if page not in RECORDS}

    linked = {(docs / place).resolve() for place, _ in LINK.findall(INDEX.read_text("utf-8"))}

    assert pages - linked == {INDEX}


def test_every_test_that_a_promise_names_exists() -> None:
    named = PROMISED.findall((ROOT / "docs" / "promises.md").read_text("utf-8"))

    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).exists()
        or (test and f"def {test}(" not in (ROOT / path).read_text("utf-8"))
    ]

    assert len(named) > 100
    assert missing == []


def test_every_name_in_the_glossary_exists_in_the_code() -> None:
    glossary = GLOSSARY.search((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert glossary is not None
    columns = [row.split("|")[-2] for row in glossary[1].splitlines() if row.startswith("| ")]
    names = {name for column in columns for name in re.findall(r"`([^`]+)`", column)}
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    words = {word for file in files for word in WORD.findall(file.read_text("utf-8"))}

    missing = {
        name
        for name in names
        if not (
            (ROOT / name).exists()
            if "/" in name
            else name.split(".")[-1].removesuffix("[]") in words
        )
    }

    assert len(names) > 40
    assert missing == set()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_decision_record_has_status_date_context_decision_and_consequences(record: Path) -> None:
    form = RECORD.match(record.read_text("utf-8"))

    assert form is not None
    assert int(form["number"]) == int(record.stem.partition("-")[0])


def test_the_index_of_decision_records_lists_each_once_with_its_title() -> None:
    titles = {
        record.name: record.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        for record in RECORDS
    }

    listed = RECORD_LINK.findall((ROOT / "docs" / "adr" / "README.md").read_text("utf-8"))

    assert sorted((file, title) for title, file in listed) == sorted(titles.items())
