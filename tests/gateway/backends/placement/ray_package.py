"""Ray for `make nightly-ray`, in a folder of its own: 200 MB that no other test needs.

`python -m tests.gateway.backends.placement.ray_package` installs it.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[4] / ".clients" / "ray"
PINS: Final = ("ray==2.60.0", "msgpack==1.2.4")
STAMP: Final = FOLDER / "installed.txt"


def installed() -> bool:
    return STAMP.exists() and STAMP.read_text().splitlines() == list(PINS)


def main() -> None:
    if installed():
        return
    print(f"installing {', '.join(PINS)}", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    # Its other requirements are packages of the tests.
    subprocess.run([*pip, "--no-deps", "--no-compile", "--target", FOLDER, *PINS], check=True)
    STAMP.write_text("\n".join(PINS))


if __name__ == "__main__":
    main()
