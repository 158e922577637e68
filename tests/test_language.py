"""Docs, pages, messages, docstrings and comments use plain words.

The expressions that they avoid are in tests/banned_words.toml, each with what to write instead.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct, convert, field

ROOT = Path(__file__).parent.parent
BANNED = ROOT / "tests" / "banned_words.toml"
WHERE = ("adapters", "benchmarks", "docs", "gateway", "local_engine", "schemas", "tools",
         "*.md", "config.yaml", "Makefile")  # fmt: skip
KINDS = {".py", ".md", ".html", ".js", ".yaml", ".yml", ".toml", ""}
CORPUS = ("tools/tiny_chat/", "local_engine/bundled/")
"""Texts that a model is trained on, and the model: data, not prose of the project."""


PROSE = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"'''
    r"""|'(?:[^'\\\n]|\\.)*'|#[^\n]*""",
    re.DOTALL,
)
"""Strings and comments of Python: nothing else has a quote or a hash. `tokenize` takes 15 times as
long."""


class Rule(Struct, frozen=True, kw_only=True):
    """One expression to avoid. exceptions: lines in which it is right."""

    pattern: str
    write: str
    exceptions: tuple[str, ...] = field(default=(), name="except")

    def found_in(self, text: str) -> Iterator[str]:
        """The lines of the text that match and are no exception."""
        for match in re.finditer(self.pattern, text):
            line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
            if not any(re.search(one, line) for one in self.exceptions):
                yield line.strip()


RULES = convert(tomllib.loads(BANNED.read_text())["banned"], list[Rule])


def files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", *WHERE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [
        name
        for name in listed.stdout.split()
        if Path(name).suffix in KINDS and not name.startswith(CORPUS)
    ]


def prose(name: str) -> str:
    """What people read of a file: of Python its strings and comments, of others everything."""
    text = (ROOT / name).read_text()
    if not name.endswith(".py"):
        return text
    return "\n".join(PROSE.findall(text))


def test_files_use_plain_words() -> None:
    found = [
        f"{name}: {line!r}: write {rule.write}"
        for name, text in [(name, prose(name)) for name in files()]
        for rule in RULES
        for line in rule.found_in(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "the client is told why",
        "whoever asks first",
        "nobody answers",
        "left alone, 90 s",
        "the body is no JSON object",
        "records wait, for it is away",
        "a try beside another",
        "shared by all workers and replicas",
        "a guardrail pauses the experiment",
    ],
)
def test_the_rules_find_what_they_are_for(line: str) -> None:
    assert any(True for rule in RULES for _ in rule.found_in(line))
