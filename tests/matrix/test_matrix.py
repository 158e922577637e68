"""Every client API reaches every backend, or the client gets the reason, as in docs/matrix.md."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.gateway.shared_engine import SharedEngine
from tests.matrix.agent_questions import ALL_QUESTIONS, ALL_SURFACES, HAS_NO_FORM_ANYWHERE
from tests.matrix.measure import measure
from tests.matrix.questions import FEATURES
from tests.matrix.table import page

pytestmark = pytest.mark.anyio
DOCUMENT = Path(__file__).parents[2] / "docs" / "matrix.md"


async def test_the_documented_matrix_is_what_the_gateway_does(
    tmp_path: Path, engine: SharedEngine
) -> None:
    written = page(await measure(tmp_path, engine))

    assert written == DOCUMENT.read_text(), "docs/matrix.md is out of date: run `make matrix`"


def test_no_cell_is_blank() -> None:
    asked = {(question.surface, question.feature) for question in ALL_QUESTIONS}

    everything = {(surface, feature) for surface in ALL_SURFACES for feature in FEATURES}
    assert asked | set(HAS_NO_FORM_ANYWHERE) == everything
    assert not asked & set(HAS_NO_FORM_ANYWHERE)
