"""A Chinese page has its English twin's headings, snippets and current text."""

import re

import pytest

from tools.twins import ROOT, TWINS, marked, sections, stale

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^]]*)]\(([^)#]+)[^)]*\)")
SAYS_ENGLISH = re.compile("English|英文")
"""A link whose text says that the page is the English one."""
TYPE = re.compile(r"^\| `[a-z0-9_]+` \| ([^|]*) \|", re.MULTILINE)
CODE = re.compile(r"`[^`]*`")
WORD = re.compile(r"\b[a-z]{2,}\b")
SAME_IN_BOTH = {"null", "id", "scope"}
PAGES = sorted(TWINS)
ENGLISH = "# One\n\nFirst.\n\n```bash\n# no heading\n```\n\n## Two\n\nSecond.\n"
CHINESE = "# 一\n\n第一。\n\n```bash\n# no heading\n```\n\n## 二\n\n第二。\n"


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_every_chinese_page_has_a_twin() -> None:
    found = {str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "zh").rglob("*.md")}

    assert found == set(TWINS)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_headings_of_its_twin(name: str) -> None:
    mine, theirs = (
        [section.level for section in sections(read(page))] for page in (name, TWINS[name])
    )

    assert mine == theirs, f"{name} and {TWINS[name]} have different headings"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_snippets_of_its_twin(name: str) -> None:
    assert FENCED.findall(read(name)) == FENCED.findall(read(TWINS[name])), (
        f"copy the code blocks of {TWINS[name]} to {name}"
    )


@pytest.mark.parametrize("name", PAGES)
def test_no_section_is_older_than_its_twin(name: str) -> None:
    assert stale(read(name), read(TWINS[name])) == [], (
        f"update {name}, then run `python -m tools.twins {name}`"
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_links_to_translated_pages_where_there_are_some(name: str) -> None:
    folder = (ROOT / name).parent
    translated = {(ROOT / english).resolve() for english in TWINS.values()}

    links = [(text, (folder / place).resolve()) for text, place in LINK.findall(read(name))]

    english = [text for text, place in links if place in translated]
    assert [text for text in english if not SAYS_ENGLISH.search(text)] == []


def test_the_types_of_settings_are_translated() -> None:
    types = [CODE.sub("", cell) for cell in TYPE.findall(read("docs/zh/configuration.md"))]

    assert len(types) > 300
    assert [cell for cell in types if set(WORD.findall(cell)) - SAME_IN_BOTH] == []


def test_only_the_section_that_changed_is_stale() -> None:
    page = marked(CHINESE, ENGLISH)

    (problem,) = stale(page, ENGLISH.replace("Second", "Another"))

    assert stale(page, ENGLISH) == []
    assert problem.startswith('section "二" was translated from another text than "Two"')


def test_marking_a_page_again_changes_nothing() -> None:
    page = marked(CHINESE, ENGLISH)

    assert marked(page, ENGLISH) == page


def test_figures_that_a_command_writes_make_no_section_stale() -> None:
    english = "# One\n\n<!-- figures: make figures -->\n{}\n<!-- end of figures -->\n"
    page = marked("# 一\n\n数字。\n", english.format("1.0x"))

    assert stale(page, english.format("2.0x")) == []
