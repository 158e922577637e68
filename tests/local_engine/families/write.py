"""Write docs/engine-families.md: `make families`; a quarter of an hour on one core."""

import sys

from tests.local_engine.families.measure import Outcome
from tests.local_engine.families.page import PAGE, page
from tests.local_engine.families.random_models import families
from tests.local_engine.families.sweep import sweep


def main() -> int:
    """Return 1, and write nothing, if a family is neither served rightly nor refused."""
    outcomes = sweep(families(), report=_told)
    faults = [one for one in outcomes if one.kind not in ("equal", "refused")]
    if faults:
        print("\n".join(f"{one.family}: {one.kind}: {one.detail}" for one in faults))
        return 1
    PAGE.write_text(page(outcomes), encoding="utf-8")
    return 0


def _told(outcome: Outcome) -> None:
    print(f"{outcome.family}: {outcome.kind} {outcome.detail}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
