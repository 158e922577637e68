"""Refuse to build the distribution from a folder that is not a whole copy of the repository.

hatchling calls this for wheel, sdist and editable installation (pyproject.toml). Without it, pip
installs a .zip whose links have become files, and then no command starts. A change in an unpacked
sdist, which has each package twice, could be missing in the wheel.
"""

import filecmp
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "strowger_gateway"
PACKAGES = ("adapters", "gateway", "local_engine", "schemas")


class WholeCopy(BuildHookInterface[Any]):
    """Found by hatchling, because it is the only hook in this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if fault := fault_of(Path(self.root)):
            self.app.abort(fault)


def fault_of(root: Path) -> str:
    """Say what is wrong with a copy of the repository, and what to do; "" if nothing is."""
    for package in PACKAGES:
        link, folder = root / NAME / package, root / package
        if not link.is_dir():
            return (
                f"{NAME}/{package} should be a symbolic link to ../{package}: this copy has lost "
                "its links, as pip and other programs lose them when they unpack a .zip. Clone the "
                "repository with git, where links are on (core.symlinks), or use its .tar.gz"
            )
        if folder.is_dir() and (different := _different(folder, link)):
            return (
                f"{package}/{different} and {NAME}/{package}/{different} differ: an sdist has each "
                "file of the packages twice. Make the change in both"
            )
    return ""


def _different(one: Path, other: Path) -> str:
    """Name a file that two folders do not have alike; "" if there is none, as behind a link."""
    if one.samefile(other):
        return ""
    names = {
        path.relative_to(folder)
        for folder in (one, other)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in sorted(names):
        pair = (one / name, other / name)
        if not all(path.is_file() for path in pair) or not filecmp.cmp(*pair, shallow=False):
            return name.as_posix()
    return ""
