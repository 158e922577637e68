"""Commands that install the gateway name its own distribution, and work in every shell.

`strowger` alone is another project on PyPI, and zsh takes `[` outside of quotes for a pattern.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"(?<![\w-])(strowger(?:-[a-z-]+)?)\[([^\]]*)\]")
"""A distribution with extras, which may be computed."""
UNQUOTED = re.compile(r"pip install(?: -[\w-]+)*(?: [\w.=-]+)* [\w.-]+\[[^\n]*")
"""Extras in a command, before which no quotation mark opens."""


@cache
def lines() -> tuple[tuple[str, str], ...]:
    """The lines of all text files, with their places, except those of this file."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(_lines(ROOT / name for name in listed.stdout.split()))


def _lines(files: Iterator[Path]) -> Iterator[tuple[str, str]]:
    for file in files:
        if file == Path(__file__) or not file.is_file():
            continue
        data = file.read_bytes()
        if b"[" in data and (b"strowger" in data or b"pip install" in data):
            text = data.decode(errors="replace")
            for number, line in enumerate(text.splitlines(), 1):
                yield f"{file.relative_to(ROOT)}:{number}", line


def test_extras_are_those_of_this_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = set(project["optional-dependencies"])

    named = [
        (place, distribution, set(extras.split(",")) - {"{extra}"})
        for place, line in lines()
        for distribution, extras in NAMED.findall(line)
    ]

    assert len(named) > 50
    assert [one for one in named if one[1] != project["name"] or not one[2] <= known] == []


def test_commands_that_install_extras_quote_them() -> None:
    assert [(place, line) for place, line in lines() if UNQUOTED.search(line)] == []
    assert UNQUOTED.search("pip install -U torch==2.1 strowger-gateway[local]")
    assert not UNQUOTED.search("pip install 'torch==2.1' 'strowger-gateway[local,npu]'")
