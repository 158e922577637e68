"""Write the JSON Schema of config.yaml: `make config-schema`.

`descriptions` reads the meaning of each key from docs/configuration.md, so that editors show what
the documentation says. An installed `strowger schema` has them in a file of the package.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.json_schema import document

ROOT = Path(__file__).parent.parent
DOCUMENTATION = ROOT / "docs" / "configuration.md"
DESCRIPTIONS = Path(document.__file__).with_name(document.DESCRIPTIONS)
SCHEMA = ROOT / "docs" / "config.schema.json"

_SECTION = re.compile(r"^## (?P<heading>.+)\n(?P<text>(?:(?!## ).*\n)*)", re.MULTILINE)
_PATH = re.compile(r"`(?P<path>[a-z_.\[\]]+)`.*")
_ROW = re.compile(r"^\| `(?P<key>[a-z0-9_]+)` \| (?P<cells>.*) \|$", re.MULTILINE)
_TOP = "Top-level keys"
_BELOW = re.compile(r" \((?:details )?below\)| \(\[below\]\([^)]*\)\)|,? see \[below\]\([^)]*\)")
_PAGE = re.compile(r"\[(?P<text>[^]]+)]\((?P<page>[\w/-]+\.md)(?:#[^)]*)?\)")
_LINK = re.compile(r"\[(?P<text>[^]]+)]\([^)]*\)")


def descriptions() -> dict[str, str]:
    """Return the meaning of each key by its path, such as `models[].retry.attempts`."""
    return dict(_descriptions(DOCUMENTATION.read_text("utf-8")))


def _descriptions(page: str) -> Iterator[tuple[str, str]]:
    for section in _SECTION.finditer(page):
        heading = section["heading"]
        named = _PATH.fullmatch(heading)
        if named is None and heading != _TOP:
            continue
        path = f"{named['path']}." if named else ""
        for row in _ROW.finditer(section["text"]):
            meaning = plain(row["cells"].split(" | ")[-1])
            if meaning:
                yield f"{path}{row['key']}", meaning


def plain(cell: str) -> str:
    """Return a cell of a table as text: links name pages of docs/, pipes are not escaped."""
    text = _PAGE.sub(_page, _BELOW.sub("", cell))
    return _LINK.sub(r"\g<text>", text).replace(r"\|", "|").strip()


def _page(link: re.Match[str]) -> str:
    before = link.string[: link.start()]
    alone = before.endswith(("(", "see ")) or link["text"].endswith(".md")
    return f"docs/{link['page']}" if alone else link["text"]


def schema_text() -> str:
    """Return the file that `strowger schema` prints."""
    return json.dumps(document.config_schema(PARTS), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DESCRIPTIONS.write_text(
        json.dumps(descriptions(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    SCHEMA.write_text(schema_text(), "utf-8")
