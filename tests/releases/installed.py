"""A wheel, installed in a virtual environment of its own."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "strowger-gateway"


def empty_environment(folder: Path) -> Path:
    """Create a virtual environment without packages, not even pip; return its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def public_authorities() -> dict[str, str]:
    """Return the environment without the tests' own authority, which no index is signed by."""
    tests_own = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE"}
    return {name: value for name, value in os.environ.items() if name not in tests_own}


def install(python: Path, *words: str) -> None:
    """Run `pip install` of the test's own pip for another interpreter."""
    subprocess.run(
        (sys.executable, "-m", "pip", "--python", str(python), "--quiet", "install", *words),
        env=public_authorities(),
        check=True,
        capture_output=True,
        text=True,
    )


def borrow_packages(python: Path, *extras: str) -> None:
    """Link the packages that the wheel declares, with these extras, from the test's environment.

    So an import of a package that is not declared fails, as it would at a user.
    """
    own = next(python.parents[1].glob("lib/python*/site-packages"))
    for needed in _required(PROJECT, frozenset(extras)):
        for entry in {str(file).split("/")[0] for file in needed.files or ()} - {".."}:
            source = Path(str(needed.locate_file(entry)))
            if source.exists() and entry != "__pycache__" and not (own / entry).exists():
                (own / entry).symlink_to(source)


def _required(name: str, extras: frozenset[str]) -> Iterator[Distribution]:
    """Every distribution that one needs, each once per set of extras."""
    waiting = [(name, extras)]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        found = distribution(name)
        if name != PROJECT:
            yield found
        for line in found.requires or ():
            needed = Requirement(line)
            applies = needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)
            )
            one = (canonicalize_name(needed.name), frozenset(needed.extras))
            if applies and one not in seen:
                seen.add(one)
                waiting.append(one)
