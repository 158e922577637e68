"""The English sections that a translated page was written from: `python -m tools.twins`."""

import hashlib
import re
import sys
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parent.parent
TWINS = {
    "docs/zh/README.md": "README.md",
    "docs/zh/agents.md": "docs/agents.md",
    "docs/zh/ascend.md": "docs/ascend.md",
    "docs/zh/configuration.md": "docs/configuration.md",
    "docs/zh/first-gateway.md": "docs/first-gateway.md",
    "docs/zh/mindie.md": "docs/mindie.md",
}
"""English pages by their Chinese twins."""

_HEADING = re.compile(r"^(?P<level>#{1,6}) (?P<title>.+)$")
_MARK = re.compile(r"^<!-- en: (?P<digest>[0-9a-f]{12}) -->$", re.MULTILINE)
_MARKED = re.compile(r"\n<!-- en: [0-9a-f]{12} -->\n")
_FIGURES = re.compile(r"<!-- figures: .*?<!-- end of figures -->", re.DOTALL)


class Section(Struct, frozen=True, kw_only=True):
    """A heading with the text up to the next heading of any level.

    mark: the digest that the translation names, "" if it names none.
    """

    level: int
    title: str
    text: str
    mark: str

    @property
    def digest(self) -> str:
        """12 hexadecimal digits of the text; generated figures do not count."""
        text = _FIGURES.sub("", f"{self.title}\n{self.text.strip()}")
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def sections(page: str) -> list[Section]:
    """Split a page at its headings; lines in code blocks are not headings."""
    found: list[tuple[int, str, list[str]]] = []
    fenced = False
    for line in page.splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading:
            found.append((len(heading["level"]), heading["title"], []))
        elif found:
            found[-1][2].append(line)
    return [_section(level, title, "\n".join(lines)) for level, title, lines in found]


def _section(level: int, title: str, text: str) -> Section:
    mark = _MARK.search(text)
    return Section(level=level, title=title, text=text, mark=mark["digest"] if mark else "")


def stale(translated: str, english: str) -> list[str]:
    """Report each section of a translation that was written from another text than the current."""
    return [
        f'section "{mine.title}" was translated from another text than "{theirs.title}" is now; '
        f"update the translation and write <!-- en: {theirs.digest} --> below its heading"
        for mine, theirs in zip(sections(translated), sections(english), strict=True)
        if mine.mark != theirs.digest
    ]


def marked(translated: str, english: str) -> str:
    """Return the translation with the digests of the current English sections."""
    digests = iter([section.digest for section in sections(english)])
    lines: list[str] = []
    fenced = False
    for line in _MARKED.sub("", translated).splitlines():
        fenced ^= line.startswith("```")
        lines.append(line)
        if not fenced and _HEADING.match(line):
            lines += ["", f"<!-- en: {next(digests)} -->"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = ROOT / name
        english = (ROOT / TWINS[name]).read_text("utf-8")
        page.write_text(marked(page.read_text("utf-8"), english), "utf-8")
