"""Commands whose output goes to a full disk."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command",
    [["schema"], ["--help"], ["prices"]],
    ids=lambda words: words[0],
)
def test_a_command_that_cannot_write_its_output_says_so_in_one_line(command: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gateway.cli", *command],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stderr == "strowger: cannot write the output: No space left on device\n"
    assert done.returncode == 1
