"""A tree of the project with one more part: links to all files but `assembly/parts.py`."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[3]


def tree_with(part: str, root: Path) -> Path:
    """Return `root`, with the project in it. part: MODULE:CLASS, the first of all parts."""
    package, assembly = root / "strowger_gateway", root / "strowger_gateway/gateway/assembly"
    assembly.mkdir(parents=True)
    for source in (ROOT / "strowger_gateway", ROOT / "gateway", ROOT / "gateway/assembly"):
        target = package / source.relative_to(ROOT) if source.name != package.name else package
        for one in source.iterdir():
            if not (target / one.name).exists():
                (target / one.name).symlink_to(one.resolve())
    parts = assembly / "parts.py"
    text = parts.read_text()
    parts.unlink()
    before, names, after = text.partition("_NAMES: Final = (\n")
    parts.write_text(f'{before}{names}    "{part}",\n{after}')
    return root


def environment(tree: Path) -> dict[str, str]:
    """Return what makes a command use the tree."""
    return {"PYTHONPATH": os.pathsep.join((str(tree), str(ROOT)))}
