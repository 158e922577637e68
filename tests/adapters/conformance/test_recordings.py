"""Every recorded answer is read by an adapter, or docs/recordings.md says why not."""

import re
from pathlib import Path

import pytest

from tests.adapters.conformance.test_contract import TRAFFIC
from tests.adapters.traffic import RECORDINGS

ROW = re.compile(r"^\| ([a-z-]+/[\w.-]+) \| (.+) \|$", re.MULTILINE)
PAGE = Path(__file__).parents[3] / "docs" / "recordings.md"


def test_a_recording_that_no_adapter_reads_is_listed_with_its_reason() -> None:
    if not RECORDINGS.is_dir():
        pytest.skip("the recordings are not here")
    read = tuple(name for names in TRAFFIC.values() for name in names)
    recorded = {f"{one.parent.name}/{one.name}" for one in RECORDINGS.glob("*/*") if one.is_dir()}

    listed = dict(ROW.findall(PAGE.read_text()))

    assert set(listed) == {name for name in recorded if not name.startswith(read)}
    assert all(listed.values())
