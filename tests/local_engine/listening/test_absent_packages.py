"""The engine's process without the packages that it needs."""

import subprocess
import sys
from pathlib import Path


def test_an_engine_without_its_packages_names_the_extra_that_installs_them(
    tmp_path: Path,
) -> None:
    file = tmp_path / "engine.json"
    file.write_text('{"models": []}')
    program = (
        "import sys; sys.modules['transformers'] = None; "
        "from strowger_gateway.local_engine.__main__ import run; "
        "sys.exit(run(['--socket', 'engine.sock', '--config', sys.argv[1]]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (
        1,
        b"needs transformers: pip install 'strowger-gateway[local]'\n",
    )
