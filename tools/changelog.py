"""Move the fragments in changelog.d into a section of CHANGELOG.md.

`make changelog VERSION=0.2.0`; changelog.d/README.md has the rules.
"""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parent.parent
KINDS = ("breaking", "added", "changed", "fixed", "security")
"""In the order of a section's headings."""

_NAME = re.compile(r"(?P<area>[a-z0-9][a-z0-9_-]*)(\.[a-z0-9_-]+)?\.(?P<kind>[a-z]+)\.md")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_FIRST_SECTION = re.compile(r"^## ", re.MULTILINE)


class Fragment(Struct, frozen=True, kw_only=True):
    """One change. text: Markdown, one or a few sentences."""

    area: str
    kind: str
    text: str

    @property
    def bullet(self) -> str:
        """The change as an entry of a list, with the area in bold."""
        return f"- **{self.area}**: {self.text}".replace("\n", "\n  ")


def fragments(folder: Path) -> list[Fragment]:
    """Read a folder's fragments, sorted by name.

    Raises ValueError with all files that have another name than AREA.KIND.md, or no text.
    """
    found: list[Fragment] = []
    wrong: list[str] = []
    for file in _files(folder):
        name, text = _NAME.fullmatch(file.name), file.read_text("utf-8").strip()
        if name is None or name["kind"] not in KINDS:
            wrong.append(f"{file.name}: is not AREA.KIND.md with a kind of {', '.join(KINDS)}")
        elif not text:
            wrong.append(f"{file.name}: is empty")
        else:
            found.append(Fragment(area=name["area"], kind=name["kind"], text=text))
    if wrong:
        raise ValueError("\n".join(wrong))
    return found


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name != "README.md")


def section(version: str, date: str, changes: Sequence[Fragment]) -> str:
    """Return a version's section. date: YYYY-MM-DD."""
    lines = [f"## {version} - {date}", ""]
    for kind in KINDS:
        if bullets := [change.bullet for change in changes if change.kind == kind]:
            lines += [f"### {kind.capitalize()}", "", *bullets, ""]
    return "\n".join(lines)


def release(root: Path, version: str, date: str) -> None:
    """Put a section above those of earlier versions, and delete the fragments.

    Raises ValueError if there is no fragment, a fragment is wrong, or the version has a section.
    """
    folder, page = root / "changelog.d", root / "CHANGELOG.md"
    changes, text = fragments(folder), page.read_text("utf-8")
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is not a version X.Y.Z")
    if re.search(rf"^## {re.escape(version)}\b", text, re.MULTILINE):
        raise ValueError(f"CHANGELOG.md has a section {version} already")
    if not changes:
        raise ValueError("changelog.d has no changes")
    first = _FIRST_SECTION.search(text)
    place = first.start() if first else len(text)
    page.write_text(f"{text[:place]}{section(version, date, changes)}\n{text[place:]}", "utf-8")
    for file in _files(folder):
        file.unlink()


def main(arguments: Sequence[str]) -> None:
    """Raises SystemExit with the reason if nothing was written."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m tools.changelog VERSION")
    try:
        release(ROOT, arguments[0], datetime.now(UTC).date().isoformat())
    except ValueError as exc:
        raise SystemExit(str(exc)) from exc


if __name__ == "__main__":
    main(sys.argv[1:])
