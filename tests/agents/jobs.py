"""Every job of an agent: its task, what lies in its folder, and what must have come of it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.agents import play
from tests.agents.papers import PRICES, pdf
from tests.switching.scene import CITED

THINKS_S: Final = float(os.environ.get("STROWGER_THINKS_S", "70"))
"""How long a model thinks that thinks long."""

SEARCH: Final = (
    "Work in the folder {folder} and ask nothing. Search the web for the weather in Zürich, and"
    " tell me what you found."
)
READ_PDF: Final = (
    "Work in the folder {folder} and ask nothing. Read prices.pdf, and tell me what pears cost."
)


class Job(Struct, frozen=True, kw_only=True):
    """prepare: puts files into the agent's folder. faults: what is wrong with the folder and the
    output of an agent that has ended.

    thinks_s: seconds of silence before the first answer of the vendor's model. outage_s: seconds
              for which the vendor fails, once for each of the first four steps.
    """

    name: str
    title: str
    task: str
    prepare: Callable[[Path], None]
    faults: Callable[[Path, str], list[str]]
    thinks_s: float = 0
    outage_s: float = 0


def _nothing(_: Path) -> None:
    pass


def _paper(folder: Path) -> None:
    (folder / PRICES).write_bytes(pdf(play.AFTER))


def _says(text: str) -> Callable[[Path, str], list[str]]:
    return lambda _, output: [] if text in output else [f"{text!r} did not arrive: {output[-900:]}"]


def _files(name: str, title: str, *, thinks_s: float = 0, outage_s: float = 0) -> Job:
    """Return the job with the two files, under some trouble."""
    return Job(
        name=name,
        title=title,
        task=play.TASK,
        prepare=play.prepare,
        faults=play.faults,
        thinks_s=thinks_s,
        outage_s=outage_s,
    )


FILES: Final = _files("files", "reads, edits, runs")
JOBS: Final = (
    FILES,
    Job(name="search", title="searches", task=SEARCH, prepare=_nothing, faults=_says(CITED)),
    Job(name="pdf", title="a PDF", task=READ_PDF, prepare=_paper, faults=_says(play.AFTER)),
    _files("thinks", "long thinking", thinks_s=THINKS_S),
    _files("blip-1", "1 s of errors", outage_s=1),
    _files("blip-5", "5 s of errors", outage_s=5),
)
"""The table's columns."""

WEATHER: Final = Job(
    name="weather",
    title="the weather",
    task="What is the weather in Paris?",
    prepare=_nothing,
    faults=_says("sunny"),
)
"""For `tiny-chat`, which knows no other tool of an agent."""

ALWAYS: Final = ("files", "thinks", "blip-1", "blip-5")
"""The jobs of every agent."""
