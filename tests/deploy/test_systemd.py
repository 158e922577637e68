"""The systemd units are valid; the service is sandboxed, and has time to drain."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.schema.config import ServerConfig
from tests.deploy.proxies import DEPLOY, replaced

ANALYZE = shutil.which("systemd-analyze")
UNIT, SOCKET = DEPLOY / "strowger.service", DEPLOY / "strowger.socket"
MOST_EXPOSED = 20
"""Of 100, as `systemd-analyze security` counts; an unprotected service has 96."""

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")


def analyze(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze with the unit, whose program is one that exists here."""
    unit = folder / UNIT.name
    unit.write_text(replaced(UNIT.read_text(), ("/opt/strowger/bin/strowger", "/bin/true")))
    command = [ANALYZE or "", *arguments, str(unit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    found = analyze(tmp_path, "verify", "--man=no")

    ours = [line for line in found.stderr.splitlines() if UNIT.name in line]
    assert (found.returncode, ours) == (0, [])


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_socket(tmp_path: Path) -> None:
    shutil.copy(SOCKET, tmp_path)
    analyze(tmp_path, "verify", "--man=no")  # the service, which the socket starts
    command = [ANALYZE or "", "verify", "--man=no", str(tmp_path / SOCKET.name)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    ours = [line for line in found.stderr.splitlines() if "strowger" in line]
    assert (found.returncode, ours) == (0, [])


@needs_systemd
def test_systemd_counts_the_service_as_protected(tmp_path: Path) -> None:
    found = analyze(tmp_path, "security", "--offline=true", f"--threshold={MOST_EXPOSED}")

    assert found.returncode == 0, found.stdout


def test_systemd_waits_longer_than_the_gateway_drains() -> None:
    stop = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)

    assert stop is not None
    assert int(stop[1]) >= ServerConfig().drain_delay_s + ServerConfig().drain_timeout_s + 10
