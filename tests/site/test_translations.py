"""Chinese pages have twins and are checked against them.

A page that is older than its twin is reported by `make check` and fails a release, not a test: a
change of an English page needs no Chinese.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site.two_languages import two_languages
from tools.twins import ROOT, TWINS, differences, marked

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


def test_only_the_section_that_changed_is_older_than_its_twin() -> None:
    page = marked(CHINESE, ENGLISH)

    (problem,) = differences(page, ENGLISH.replace("Second", "Another"))

    assert differences(page, ENGLISH) == []
    assert problem == 'section "二" was translated from another text than "Two" is now'


def test_a_section_that_is_new_in_english_is_named_and_the_others_are_not() -> None:
    page = marked(CHINESE, ENGLISH)

    found = differences(page, f"{ENGLISH}\n## Three\n\nThird.\n")

    assert found == [
        "has 2 headings, the English page 3",
        'section "Three" changed or is new',
    ]


def test_other_code_blocks_under_the_right_digests_are_found() -> None:
    page = marked(CHINESE.replace("# no heading", "# another"), ENGLISH)

    assert differences(page, ENGLISH) == ["has other code blocks than the English page: copy them"]


def test_marking_a_page_again_changes_nothing() -> None:
    page = marked(CHINESE, ENGLISH)

    assert marked(page, ENGLISH) == page


def test_a_page_with_other_headings_is_not_marked_as_current() -> None:
    with pytest.raises(ValueError, match="different headings"):
        marked(CHINESE, f"{ENGLISH}\n## Three\n")


def test_figures_that_a_command_writes_make_no_section_older() -> None:
    english = "# One\n\n<!-- figures: make figures -->\n{}\n<!-- end of figures -->\n"
    page = marked("# 一\n\n数字。\n", english.format("1.0x"))

    assert differences(page, english.format("2.0x")) == []


@pytest.mark.parametrize(("arguments", "status"), [([], 0), (["--release"], 1)])
def test_an_english_change_without_a_translation_is_reported_and_fails_only_a_release(
    arguments: list[str], status: int, tmp_path: Path
) -> None:
    project = two_languages(tmp_path)
    (project / "docs" / "agents.md").write_text("# Agents\n\nA change.\n")

    ran = subprocess.run(
        [sys.executable, "-m", "tools.twins", *arguments],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == status
    assert ran.stdout.startswith('docs/zh/agents.md: section "一" was translated from another text')


def test_translations_that_are_current_report_nothing(tmp_path: Path) -> None:
    project = two_languages(tmp_path)

    ran = subprocess.run(
        [sys.executable, "-m", "tools.twins", "--release"],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ran.returncode, ran.stdout) == (0, "")
