"""The changelog is short, and a release gathers the changes that came with fragments."""

import re
from pathlib import Path

import pytest

from tools.changelog import ROOT, fragments, release

SECTION = re.compile(r"^## .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
MOST_LINES = 80
PAGE = "# Changelog\n\nWhat each version brings.\n\n## 0.1.0 - 2026-12-01\n\nThe first.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an empty folder of changes."""
    (tmp_path / "CHANGELOG.md").write_text(PAGE)
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("How to write a change.\n")
    return tmp_path


def change(project: Path, name: str, text: str) -> None:
    (project / "changelog.d" / name).write_text(text)


def test_each_version_has_at_most_80_lines_in_the_changelog() -> None:
    sections = SECTION.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))

    lines = {section.partition("\n")[0]: section.count("\n") for section in sections}

    assert "## 0.1.0" in lines
    assert {title: count for title, count in lines.items() if count > MOST_LINES} == {}


def test_every_change_in_the_folder_names_its_area_and_kind() -> None:
    assert all(one.text for one in fragments(ROOT / "changelog.d"))


def test_a_release_gathers_all_changes_above_the_version_before(project: Path) -> None:
    change(project, "limits.added.md", "Limits per week.\n")
    change(project, "limits.day.fixed.md", "A day has 24 hours\nin every time zone.\n")
    change(project, "openai.breaking.md", "`a` is `b`: rename it.")

    release(project, "0.2.0", "2026-12-31")

    assert (project / "CHANGELOG.md").read_text() == PAGE.replace(
        "## 0.1.0",
        "## 0.2.0 - 2026-12-31\n\n"
        "### Breaking\n\n- **openai**: `a` is `b`: rename it.\n\n"
        "### Added\n\n- **limits**: Limits per week.\n\n"
        "### Fixed\n\n- **limits**: A day has 24 hours\n  in every time zone.\n\n"
        "## 0.1.0",
    )
    assert [file.name for file in (project / "changelog.d").iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("limits.md", "Limits per week.", "is not AREA.KIND.md"),
        ("limits.new.md", "Limits per week.", "is not AREA.KIND.md"),
        ("Limits.added.md", "Limits per week.", "is not AREA.KIND.md"),
        ("limits.added.txt", "Limits per week.", "is not AREA.KIND.md"),
        ("limits.added.md", "\n", "is empty"),
    ],
)
def test_a_change_without_area_kind_or_text_stops_the_release(
    project: Path, name: str, text: str, reason: str
) -> None:
    change(project, name, text)

    with pytest.raises(ValueError, match=f"{name}: {reason}"):
        release(project, "0.2.0", "2026-12-31")
    assert (project / "CHANGELOG.md").read_text() == PAGE


@pytest.mark.parametrize(
    ("version", "reason"),
    [("0.1.0", "has a section 0.1.0 already"), ("v0.2.0", "is not a version")],
)
def test_a_version_is_released_once_and_is_a_number(
    project: Path, version: str, reason: str
) -> None:
    change(project, "limits.added.md", "Limits per week.")

    with pytest.raises(ValueError, match=reason):
        release(project, version, "2026-12-31")


def test_a_version_without_changes_is_not_released(project: Path) -> None:
    with pytest.raises(ValueError, match="has no changes"):
        release(project, "0.2.0", "2026-12-31")
