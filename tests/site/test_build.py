"""The site builds without a warning, loads nothing from other hosts, and has every page.

`make nightly-tests` writes the pages; each run of the tests has their links, in
tests/test_documents.py.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tools.cli_reference import PAGE

ROOT = Path(__file__).parents[2]
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Attributes, by tag, that a browser loads without a click."""
ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:url\(|@import\s+)['\"]?(?:https?:)?//[^)'\"]+", re.IGNORECASE)


class Loads(HTMLParser):
    """Collect what a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.external: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        place = dict(attrs).get(LOADS.get(tag, ""))
        if place and ELSEWHERE.match(place):
            self.external.append(place)


def external(page: str) -> list[str]:
    parser = Loads()
    parser.feed(page)
    return parser.external


def build(builder: str, folder: Path) -> None:
    """A warning, such as a broken link or a page outside the navigation, fails."""
    built = subprocess.run(
        (
            *(sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", builder),
            *("-c", "docs/site", "docs", str(folder)),
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    build("html", folder)
    return folder


@pytest.mark.nightly
def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {
        page.relative_to(ROOT / "docs").with_suffix(".html")
        for page in (ROOT / "docs").rglob("*.md")
    }

    assert len(pages) > 80
    assert {page for page in pages if not (site / page).is_file()} == set()


@pytest.mark.nightly
def test_a_page_declares_the_language_that_it_is_in(site: Path) -> None:
    declared = {
        (page.parent.name == "zh", str(re.findall(r"<html[^>]* lang=\"([^\"]+)\"", text)))
        for page in site.rglob("*.html")
        for text in [page.read_text("utf-8")]
    }

    assert declared == {(True, "['zh-CN']"), (False, "['en']")}


@pytest.mark.nightly
def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = {page.name: external(page.read_text("utf-8")) for page in site.rglob("*.html")}

    assert {name: found for name, found in pages.items() if found} == {}


@pytest.mark.nightly
def test_no_style_sheet_loads_anything_from_another_host(site: Path) -> None:
    styles = {
        style.name: IN_STYLE.findall(style.read_text("utf-8")) for style in site.rglob("*.css")
    }

    assert styles
    assert {name: found for name, found in styles.items() if found} == {}


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://cdn.test/a.js">',
        '<link rel="stylesheet" href="//cdn.test/a.css">',
        '<img src="http://cdn.test/a.png">',
    ],
)
def test_a_page_that_loads_from_another_host_is_found(tag: str) -> None:
    assert len(external(tag)) == 1


def test_the_command_line_reference_is_that_of_the_commands() -> None:
    # In a new process: click keeps the help option of a command from its first context.
    written = subprocess.run(
        (
            sys.executable,
            "-c",
            "from tools import cli_reference as c; print(c.reference(), end='')",
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert PAGE.read_text("utf-8") == written, "run `make cli-reference`"
