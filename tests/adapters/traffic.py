"""Where the tests find recorded and written answers."""

import os
from pathlib import Path

from adapters.testing import Case, cases

FIXTURES = Path(__file__).parent / "fixtures"
ROOT = Path(__file__).parents[2]
RECORDINGS = Path(os.environ.get("STROWGER_RECORDINGS", ROOT.parent / "shared" / "recordings"))


def traffic(*vendors: str) -> list[Case]:
    """Our own fixtures, and the recordings where they are present."""
    return [one for root in (FIXTURES, RECORDINGS) for v in vendors for one in cases(root / v)]


def fixture(name: str) -> Case:
    vendor, _, case = name.partition("/")
    return next(one for one in cases(FIXTURES / vendor) if one.name == f"{vendor}/{case}")
