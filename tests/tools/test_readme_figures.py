"""The README's figures are those of docs/benchmarks.md."""

from pathlib import Path

import pytest

from tools.readme_figures import figures, updated

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


def test_the_readme_has_the_figures_of_the_benchmarks() -> None:
    assert updated(README, BENCHMARKS) == README, "run `make figures`"


def test_a_row_that_is_gone_is_named() -> None:
    with pytest.raises(ValueError, match=r"no row matches .*SSE event"):
        figures(BENCHMARKS.replace("SSE event", "event"))
