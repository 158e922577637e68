"""The table of docs/agents.md of agents by jobs, each with three backends."""

import string
from collections.abc import Mapping, Sequence
from typing import Final

from tests.agents.jobs import JOBS, Job
from tests.agents.roster import AGENTS, Agent
from tests.agents.running import Outcome, gives_up
from tests.agents.trouble import STATUSES

BEGIN: Final = "<!-- `make agents` writes the jobs from here -->\n"
END: Final = "<!-- the jobs end here -->\n"
BACKENDS: Final = ("openai", "anthropic", "gemini")

Cells = Mapping[tuple[str, str], str]
"""What there is to say of a job that was done, by agent and job."""

HEAD: Final = ["agent", "API", *(one.title for one in JOBS)]
CANNOT: Final = "–"
UNSEARCHED: Final = "tools[].web_search"


def note(agent: Agent, job: Job, outcomes: Mapping[str, Outcome]) -> str:
    """outcomes: by backend."""
    told: list[str] = []
    without = [name for name, one in outcomes.items() if UNSEARCHED in one.dropped]
    if job.name == "search" and without:
        names = ", ".join([f"`{one}`" for one in without])
        told.append(f"{names}: its API does not search, and the model answers without")
    ends = [str(one) for one in STATUSES if gives_up(agent, job, one)]
    if ends:
        told.append(f"without {', '.join(ends)}, at which it gives up without a gateway, too")
    return "; ".join(told)


def written(document: str, cells: Cells) -> str:
    """The document with the table of these runs. Cells of no run stay as they are."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(document, cells)}\n{END}{after}"


def table(document: str, cells: Cells) -> str:
    """A row per agent, and below it what the numbers in its cells mean."""
    symbols: dict[str, str] = {}
    rows = [_line(HEAD), "|---" * len(HEAD) + "|"]
    for agent in AGENTS:
        if agent.jobs:
            marks = [_mark(document, cells, agent, job, symbols) for job in JOBS]
            rows.append(_line([agent.named, agent.api, *marks]))
    meanings = [f"- {symbol}: {text}" for text, symbol in symbols.items()]
    return "\n".join([*rows, "", *meanings, ""])


def documented(document: str, agent: Agent, job: Job) -> str | None:
    """Return the note of a cell; None if the job has not been run."""
    _, _, rest = document.partition(BEGIN)
    lines = rest.partition(END)[0].splitlines()
    rows = [line for line in lines if line.startswith(f"| {agent.named} | {agent.api} |")]
    if not rows:
        return None
    cell = rows[0][2:-2].split(" | ")[HEAD.index(job.title)]
    if "✓" not in cell:
        return None
    symbol = cell.removeprefix("✓").strip()
    if not symbol:
        return ""
    (found,) = [line for line in lines if line.startswith(f"- {symbol}: ")]
    return found.removeprefix(f"- {symbol}: ")


def _mark(document: str, cells: Cells, agent: Agent, job: Job, symbols: dict[str, str]) -> str:
    if job.name not in agent.jobs:
        return CANNOT
    key = agent.name, job.name
    told = cells[key] if key in cells else documented(document, agent, job)
    if told is None:
        return " "
    if not told:
        return "✓"
    return f"✓ {symbols.setdefault(told, string.ascii_uppercase[len(symbols)])}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
