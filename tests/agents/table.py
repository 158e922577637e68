"""The table of docs/agents.md: agents by backends, and the fields that were left out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.agents.backends import BACKENDS
from tests.agents.roster import AGENTS, Agent
from tests.agents.running import Outcome

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "agents.md"
BEGIN: Final = "<!-- `make agents` writes from here -->\n"
END: Final = "<!-- to here -->\n"
SYMBOLS: Final = "abcdefghijklmnopqrstuvwxyz"

Cells = Mapping[tuple[str, str], Outcome]


def written(document: str, cells: Cells) -> str:
    """The document with the table of these runs."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(cells)}\n{END}{after}"


def table(cells: Cells) -> str:
    symbols: dict[tuple[str, ...], str] = {}
    head = ["agent", "API", *(one.name for one in BACKENDS)]
    rows = [_line(head), "|---" * len(head) + "|"]
    for agent in AGENTS:
        marks = [_mark(cells[agent.name, one.name].dropped, symbols) for one in BACKENDS]
        rows.append(_line([_title(agent), agent.api, *marks]))
    notes = [
        f"- {symbol}: " + ", ".join(f"`{one}`" for one in names)
        for names, symbol in symbols.items()
    ]
    return "\n".join([*rows, "", *notes, ""])


def documented(document: str, agent: Agent, backend: str) -> tuple[str, ...]:
    """The fields that the document's table says are left out. Raises LookupError for no cell."""
    lines = document.splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {_title(agent)} | {agent.api} |")]
    place = [one.name for one in BACKENDS].index(backend)
    mark = row.split(" | ")[2 + place].strip(" |")
    if mark == "✓":
        return ()
    symbol = mark.removeprefix("✓ ")
    (note,) = [line for line in lines if line.startswith(f"- {symbol}: ")]
    return tuple(one.strip("`") for one in note.removeprefix(f"- {symbol}: ").split(", "))


def _title(agent: Agent) -> str:
    return f"{agent.title} {agent.version}".strip()


def _mark(dropped: Sequence[str], symbols: dict[tuple[str, ...], str]) -> str:
    if not dropped:
        return "✓"
    names = tuple(dropped)
    symbols.setdefault(names, SYMBOLS[len(symbols)])
    return f"✓ {symbols[names]}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
