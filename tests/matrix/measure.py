"""Measure the matrix; as a program, write docs/matrix.md."""

import asyncio
import tempfile
from pathlib import Path

import httpx

from tests.gateway.shared_engine import SharedEngine, shared_engine
from tests.matrix.agent_questions import ALL_QUESTIONS
from tests.matrix.backends import BACKENDS, every_backend
from tests.matrix.outcome import Outcome, ask
from tests.matrix.questions import Feature
from tests.matrix.table import page

DOCUMENT = Path(__file__).parents[2] / "docs" / "matrix.md"


async def measure(run_dir: Path, engine: SharedEngine) -> dict[tuple[str, Feature, str], Outcome]:
    """Send every request to every backend; raises AssertionError with all failures."""
    cells: dict[tuple[str, Feature, str], Outcome] = {}
    faults: list[str] = []
    async with (
        every_backend(run_dir, engine) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        for question in ALL_QUESTIONS:
            for backend in BACKENDS:
                model = (question.embeds and backend.embeds) or backend.name
                try:
                    outcome = await ask(client, question, model)
                except AssertionError as exc:
                    faults.append(str(exc))
                    continue
                cells[question.surface, question.feature, backend.name] = outcome
    assert not faults, "\n".join(faults)
    return cells


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, shared_engine(Path(folder)) as engine:
        text = page(asyncio.run(measure(Path(folder), engine)))
    DOCUMENT.write_text(text)
    print(f"{DOCUMENT.name}: {text.count('✓')} work")


if __name__ == "__main__":
    main()
