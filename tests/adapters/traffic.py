"""Finds recorded and handwritten answers for the tests."""

import os
from pathlib import Path

from strowger_gateway.adapters.testing import Recording, recordings

FIXTURES = Path(__file__).parent / "fixtures"
ROOT = Path(__file__).parents[2]
RECORDINGS = Path(os.environ.get("STROWGER_RECORDINGS", ROOT.parent / "shared" / "recordings"))


def traffic(*names: str) -> list[Recording]:
    """Return our fixtures, and the recordings if present, whose names start with the prefix.

    A recording that is one of the fixtures as well comes once.
    """
    vendors = dict.fromkeys(name.partition("/")[0] for name in names)
    found = (
        one
        for root in (FIXTURES, RECORDINGS)
        for vendor in vendors
        for one in recordings(root / vendor)
    )
    wanted = (one for one in found if one.name.startswith(names))
    return list({(one.name, one.body): one for one in wanted}.values())


def fixture(name: str) -> Recording:
    vendor, _, case = name.partition("/")
    return next(one for one in recordings(FIXTURES / vendor) if one.name == f"{vendor}/{case}")
