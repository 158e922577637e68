"""A model without intelligence: what it answers depends only on how far the task is.

    reads two files, in one turn; edits the first; runs a command; says what that printed

The task names its folder. An answer to a request without an agent's tools (a title for a session,
say) is `ASIDE`.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

from tests.agents.toolsets import Toolset, results_of, toolset
from tests.gateway.backends.vendors.dialect import Call, ReceivedRequest, Said

FILE: Final = "prices.txt"
OTHER: Final = "rules.md"
BEFORE: Final = "pears 5"
AFTER: Final = "pears 7"
CONTENT: Final = f"apples 3\n{BEFORE}\nplums 9 € 🌍\n"
RULES: Final = "Pears cost two more from today.\n"
COMMAND: Final = "grep -c . prices.txt > lines.txt && grep pears prices.txt && sleep 0.3"
"""qwen-code sometimes reads nothing of a command that ends at once."""

PRINTED: Final = "lines.txt"
ASIDE: Final = "Prices of fruit"
TASK: Final = (
    "Work in the folder {folder} and ask nothing. Read prices.txt and rules.md, change prices.txt"
    " as the rules say, run the command that proves it, and tell me what it printed."
)
LISTS: Final = "*file listing*"
"""In what aider asks for, which calls no functions: whole files."""

FOLDER: Final = re.compile(r"Work in the folder (\S+) and ask nothing")
"""In the task of every job."""


def prepare(folder: Path) -> None:
    (folder / FILE).write_text(CONTENT)
    (folder / OTHER).write_text(RULES)


def faults(folder: Path, output: str) -> list[str]:
    """What is wrong with the work of an agent that has ended with this output."""
    wanted = CONTENT.replace(BEFORE, AFTER)
    found = (folder / FILE).read_text()
    printed = folder / PRINTED
    return [
        *([] if found == wanted else [f"{FILE} is {found!r}"]),
        *([] if printed.exists() and printed.read_text() == "3\n" else ["the command did not run"]),
        *([] if f"It printed: {AFTER}" in output else ["the last text did not arrive"]),
    ]


def progress(request: ReceivedRequest) -> int | None:
    """Return how many calls the agent has answered; None for a request that is not the task's."""
    said = " ".join(turn.text for turn in request.turns if turn.role != "assistant")
    if toolset(request.tools) is None or FOLDER.search(said) is None:
        return None
    return len(results_of(request))


def next_step(request: ReceivedRequest, proof: str = "") -> Said:
    """One assistant message. proof: the vendor's signature, for its first call."""
    tools = toolset(request.tools)
    said = " ".join(turn.text for turn in request.turns if turn.role != "assistant")
    asked = FOLDER.search(said)
    if tools is None and asked is not None and LISTS in said:
        return Said(text=(f"{FILE}\n```\n", f"{CONTENT.replace(BEFORE, AFTER)}```\n"))
    if tools is None or asked is None:
        return Said(text=(ASIDE[:6], ASIDE[6:]))
    folder = Path(asked[1])
    results = results_of(request)
    match len(results):
        case 0:
            calls = [tools.reads(folder / FILE), tools.reads(folder / OTHER)]
            if tools.says is not None:  # one structured answer
                return Said(text=(), calls=_made(0, calls[:1], proof))
            return Said(text=("I read ", "both files."), calls=_made(0, calls, proof))
        case 1:
            return Said(text=(), calls=_made(1, [tools.reads(folder / OTHER)], proof))
        case 2:
            read = " ".join(results)  # some agents return them in another order
            if BEFORE not in read or RULES.strip() not in read:
                return Said(text=(f"These are not the files: {results}",))
            call = tools.edits(folder / FILE, BEFORE, AFTER)
            return Said(text=(), calls=_made(2, [call], proof))
        case 3:
            call = tools.runs(folder, f"cd {folder} && {COMMAND}")
            text = ("Now the command.",) if tools.says is None else ()
            return Said(text=text, calls=_made(3, [call], proof))
        case _:
            if AFTER not in results[3]:
                return Said(text=(f"The command failed: {results[2:]}",))
            return last(tools, "It printed: ", AFTER, ".")


def last(tools: Toolset, *pieces: str) -> Said:
    """Return the answer that ends a task."""
    if tools.says is None:
        return Said(text=pieces)
    return Said(text=(), calls=_made(9, [tools.says("".join(pieces))], ""))


def _made(place: int, calls: list[Call], proof: str) -> tuple[Call, ...]:
    """The calls with ids as vendors give them, of nine characters as Mistral demands."""
    return tuple(
        msgspec.structs.replace(one, id=f"call{place + n:05}", proof="" if n else proof)
        for n, one in enumerate(calls)
    )
