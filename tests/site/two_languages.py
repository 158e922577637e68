"""A small project whose translations are current."""

import shutil
from pathlib import Path

from tools import twins


def two_languages(folder: Path) -> Path:
    """Return a project with each page and its twin, and the tool that compares them."""
    (folder / "tools").mkdir()
    shutil.copy(twins.__file__, folder / "tools")
    for name, english in twins.TWINS.items():
        text = f"# {Path(english).stem.capitalize()}\n\nA text.\n"
        for place, page in ((english, text), (name, twins.marked("# 一\n\n文。\n", text))):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(page, "utf-8")
    return folder
