"""The table of docs/agents.md: agents by backends, and the fields that were left out."""

import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.agents.backends import BACKENDS
from tests.agents.roster import AGENTS, Agent
from tests.agents.running import Outcome

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "agents.md"
BEGIN: Final = "<!-- `make agents` writes from here -->\n"
END: Final = "<!-- to here -->\n"
SYMBOLS: Final = string.ascii_lowercase + string.ascii_uppercase

Cells = Mapping[tuple[str, str], str]
"""What was left out, by agent and backend."""

UNSIGNED: Final = "the agent does not return signatures, and Google gets its placeholder"


def written(document: str, cells: Cells) -> str:
    """The document with the table of these runs. Cells of no run stay as they are."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(document, cells)}\n{END}{after}"


def table(document: str, cells: Cells) -> str:
    """A row per agent, and below it what the letters in its cells mean."""
    symbols: dict[str, str] = {}
    head = ["agent", "API", *(one.name for one in BACKENDS)]
    rows = [_line(head), "|---" * len(head) + "|"]
    for agent in [one for one in AGENTS if one.everywhere]:
        notes = [
            cells[agent.name, one.name]
            if (agent.name, one.name) in cells
            else documented(document, agent, one.name)
            for one in BACKENDS
        ]
        marks = [_mark(one, symbols) for one in notes]
        rows.append(_line([agent.named, agent.api, *marks]))
    meanings = [f"- {symbol}: {text}" for text, symbol in symbols.items()]
    return "\n".join([*rows, "", *meanings, ""])


def note(outcome: Outcome) -> str:
    """What of a run was left out, "" if nothing was."""
    dropped = ", ".join([f"`{one}`" for one in outcome.dropped])
    told = [f"left out and named: {dropped}"] if dropped else []
    return "; ".join([*told, *([UNSIGNED] if outcome.unsigned else [])])


def documented(document: str, agent: Agent, backend: str) -> str:
    """Return the note of a cell. Raises ValueError if there is no such cell."""
    _, _, rest = document.partition(BEGIN)
    lines = rest.partition(END)[0].splitlines()
    (head,) = [line for line in lines if line.startswith("| agent | API |")]
    (row,) = [line for line in lines if line.startswith(f"| {agent.named} | {agent.api} |")]
    cell = row.strip("| ").split(" | ")[head.strip("| ").split(" | ").index(backend)]
    symbol = cell.removeprefix("✓").strip()
    if not symbol:
        return ""
    (found,) = [line for line in lines if line.startswith(f"- {symbol}: ")]
    return found.removeprefix(f"- {symbol}: ")


def _mark(told: str, symbols: dict[str, str]) -> str:
    if not told:
        return "✓"
    return f"✓ {symbols.setdefault(told, SYMBOLS[len(symbols)])}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
