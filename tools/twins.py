"""The English sections that a translated page was written from.

`python -m tools.twins` reports translations that are older than their English pages, with
`--release` it fails for them, and `python -m tools.twins docs/zh/PAGE.md` marks one as current.
Only Python's standard library: the release checks the pages before anything is installed.
"""

import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^<!-- en: (?P<digest>[0-9a-f]{12}) -->$", re.MULTILINE)
_MARKED = re.compile(r"\n<!-- en: [0-9a-f]{12} -->\n")
_FIGURES = re.compile(r"<!-- figures: .*?<!-- end of figures -->", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Section:
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


def differences(translated: str, english: str) -> list[str]:
    """Report each section that was written from another text, else headings or code that differ."""
    mine, theirs = sections(translated), sections(english)
    if [one.level for one in mine] != [one.level for one in theirs]:
        marks, digests = {one.mark for one in mine}, {one.digest for one in theirs}
        return [
            f"has {len(mine)} headings, the English page {len(theirs)}",
            *(
                f'section "{one.title}" changed or is new'
                for one in theirs
                if one.digest not in marks
            ),
            *(f'section "{one.title}" is older' for one in mine if one.mark not in digests),
        ]
    older = [
        f'section "{one.title}" was translated from another text than "{other.title}" is now'
        for one, other in zip(mine, theirs, strict=True)
        if one.mark != other.digest
    ]
    if older or _FENCED.findall(translated) == _FENCED.findall(english):
        return older
    return ["has other code blocks than the English page: copy them"]


def report(root: Path) -> Iterator[str]:
    """Yield a line per difference between a page and its twin. root: the folder with docs/."""
    for name, english in TWINS.items():
        page, twin = (root / name).read_text("utf-8"), (root / english).read_text("utf-8")
        for difference in differences(page, twin):
            yield f"{name}: {difference}"


def marked(translated: str, english: str) -> str:
    """Return the translation with the digests of the current English sections.

    Raises ValueError if the two have different headings.
    """
    digests = [section.digest for section in sections(english)]
    if len(sections(translated)) != len(digests):
        raise ValueError("the pages have different headings")
    rest = iter(digests)
    lines: list[str] = []
    fenced = False
    for line in _MARKED.sub("", translated).splitlines():
        fenced ^= line.startswith("```")
        lines.append(line)
        if not fenced and _HEADING.match(line):
            lines += ["", f"<!-- en: {next(rest)} -->"]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 1 for differences, if a release asks."""
    names = [one for one in arguments if one != "--release"]
    for name in names:
        page = ROOT / name
        english = (ROOT / TWINS[name]).read_text("utf-8")
        page.write_text(marked(page.read_text("utf-8"), english), "utf-8")
    lines = [] if names else list(report(ROOT))
    for line in lines:
        print(line)
    if lines:
        print("Translations are due before the next release: update them, then run")
        print("`python -m tools.twins PAGE`. Changes of English pages need none.")
    return int("--release" in arguments and bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
