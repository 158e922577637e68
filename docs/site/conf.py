"""Build docs/ as a site: `make docs`. docs/adr/0048 has the reasons."""

import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent.parent
_SECTION = re.compile(r"^## (?P<title>.+)$")
_ENTRY = re.compile(r"^- \[(?P<text>[^]]+)]\((?P<page>[\w/.-]+)\.md\)")

project = "Strowger"
author = "Strowger contributors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["examples/*/src/**", "site/**"]
myst_heading_anchors = 6  # GitHub's anchors
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]  # JSON with "…", Mermaid: shown as they are
html_theme = "furo"
html_title = "Strowger"
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = ""
highlight_language = "text"
pygments_style = "friendly"
pygments_dark_style = "monokai"


def navigation(index: str, pages: set[str]) -> str:
    """Return a hidden `toctree` per section of index.md, with the pages that it links to.

    So index.md is plain Markdown on GitHub and the site's navigation at once. Decision records and
    other pages that it does not link to follow in two sections of their own.
    """
    trees: dict[str, list[str]] = {}
    section = ""
    for line in index.splitlines():
        if heading := _SECTION.match(line):
            section = heading["title"]
        elif section and (entry := _ENTRY.match(line)):
            trees.setdefault(section, []).append(f"{entry['text']} <{entry['page']}>")
            pages.discard(entry["page"])
    records = {page for page in pages if page.startswith("adr/")}
    trees["More"] = sorted(pages - records - {root_doc})
    trees["Decisions"] = sorted(records)
    return "\n\n".join(
        "\n".join((f"```{{toctree}}\n:hidden:\n:caption: {caption}\n", *entries, "```"))
        for caption, entries in trees.items()
        if entries
    )


def inside(docname: str, text: str) -> str:
    """Replace links to files outside docs/, which the site does not have, by their text."""

    def plain(link: re.Match[str]) -> str:
        target = link["target"].partition("#")[0]
        resolved = (DOCS / docname).parent.joinpath(target).resolve()
        if resolved.is_relative_to(DOCS) and resolved.suffix in {".md", ".png"}:
            return link[0]
        return link["text"]

    return re.sub(
        r"(?<!!)\[(?P<text>[^]\[]+)]\((?!https?:|mailto:|#)(?P<target>[^)\s]+)\)", plain, text
    )


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    text = inside(docname, content[0])
    content[0] = (
        f"{text}\n\n{navigation(text, set(app.env.found_docs))}\n" if docname == root_doc else text
    )


def _declare_language(
    _app: Sphinx, pagename: str, _template: str, context: dict[str, object], _tree: object
) -> None:
    """Declare Chinese pages as such, for fonts, screen readers and translators of browsers."""
    if pagename.startswith("zh/"):
        context["language"] = "zh-CN"


def setup(app: Sphinx) -> None:
    """Sphinx calls it once per build."""
    app.connect("source-read", _read)
    app.connect("html-page-context", _declare_language)
