"""A wheel, installed in a virtual environment of its own."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


def empty_environment(folder: Path) -> Path:
    """Create a virtual environment without packages, not even pip; return its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def install(python: Path, *words: str) -> None:
    """Run `pip install` of the test's own pip for another interpreter."""
    subprocess.run(
        (sys.executable, "-m", "pip", "--python", str(python), "--quiet", "install", *words),
        check=True,
        capture_output=True,
        text=True,
    )


def borrow_packages(python: Path) -> None:
    """Let an environment import the packages of the test's own environment, after its own.

    Python reads no .pth files of a folder that a .pth file adds, so the editable installation of
    the working tree stays out.
    """
    own = next(python.parents[1].glob("lib/python*/site-packages"))
    (own / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
