"""A copy of the repository that would give a broken package is refused, with the remedy."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "strowger_gateway"
PACKAGES = ("adapters", "gateway", "local_engine", "schemas")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """What a build reads, with one file in each package; its links are missing."""
    (tmp_path / "tools").mkdir()
    (tmp_path / NAME).mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "tools/build_hook.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in (NAME, *PACKAGES):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "__init__.py").write_text("")
    return tmp_path


def built(root: Path) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "out"))
    return subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)


def test_a_copy_with_its_links_is_built(repository: Path) -> None:
    for package in PACKAGES:
        (repository / NAME / package).symlink_to(Path("..") / package)

    done = built(repository)

    assert done.returncode == 0, done.stderr


def test_a_copy_whose_links_became_files_is_refused(repository: Path) -> None:
    """As pip unpacks the .zip of a repository: it would install a package without code."""
    for package in PACKAGES:
        (repository / NAME / package).write_text(f"../{package}")

    done = built(repository)

    assert done.returncode == 1
    assert f"{NAME}/adapters should be a symbolic link to ../adapters" in done.stderr
    assert "use its .tar.gz" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("changed", ["gateway", f"{NAME}/gateway"])
def test_a_change_in_one_of_the_two_copies_in_an_sdist_is_refused(
    changed: str, repository: Path
) -> None:
    """The wheel would be built from the other one."""
    for package in PACKAGES:
        shutil.copytree(repository / package, repository / NAME / package)
    assert built(repository).returncode == 0
    (repository / changed / "patched.py").write_text("FIXED = True\n")

    done = built(repository)

    assert done.returncode == 1
    assert f"gateway/patched.py and {NAME}/gateway/patched.py differ" in done.stderr
