"""Write docs/engine-families.md from measured outcomes, and read it back."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Final

import transformers

from tests.local_engine.families.measure import DRAWN, LENGTHS, Outcome
from tests.local_engine.families.random_models import class_of

PAGE: Final = Path(__file__).parents[3] / "docs" / "engine-families.md"

BOUNDS: Final = (1e-5, 1e-4, 1e-3, 1e-2)

GENERAL: Final = re.compile(
    r"^tiny: |the model at PATH:? (is an? [\w-]+: |cannot be served: |does not fit its task: )?"
    r"|the model's layers cannot be run here: |; serve it with another engine, such as vLLM,.*$"
)
"""What refusals of all families have in common."""

_ROW: Final = re.compile(r"^\| `([^`]+)` \| (?:`[^`]+` \| )?(.+) \|$", re.MULTILINE)
_MEMBERS: Final = re.compile(r"^\| (.+) \| ((?:`[^`]+`(?:, )?)+) \|$", re.MULTILINE)


def reason_of(outcome: Outcome) -> str:
    """Return why a family is refused, without what all refusals say."""
    return GENERAL.sub("", outcome.detail).strip()


def page(outcomes: Sequence[Outcome]) -> str:
    """Return the page. Every outcome is "equal" or "refused"."""
    served = [one for one in outcomes if one.kind == "equal"]
    refused: dict[str, list[str]] = {}
    for one in outcomes:
        if one.kind == "refused":
            refused.setdefault(reason_of(one), []).append(one.family)
    rows = [f"| `{one.family}` | `{class_of(one.family)}` | {_bound(one.gap)} |" for one in served]
    reasons = [
        f"| {reason} | {', '.join(f'`{family}`' for family in families)} |"
        for reason, families in sorted(refused.items(), key=lambda pair: -len(pair[1]))
    ]
    return "\n".join(
        [
            *_heading(len(outcomes), len(served)),
            *("## Served", ""),
            *("| `model_type` | class of transformers | difference at most |", "|---|---|---|"),
            *rows,
            *("", "## Refused", ""),
            "The engine refuses these before or while it loads them, and says why:",
            *("", "| because | `model_type` |", "|---|---|"),
            *reasons,
            "",
        ]
    )


def read_page(text: str) -> Mapping[str, str]:
    """Return each family with "" if it is served, else the reason."""
    served, refused = (part.partition("\n|---|")[2] for part in text.split("## Refused"))
    found = {family: "" for family, _ in _ROW.findall(served)}
    for reason, members in _MEMBERS.findall(refused):
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", members), reason)
    return found


INTRODUCTION: Final = """\
transformers {version} has {total} kinds of models that generate text. The [engine](engine.md)
serves {served} of them and refuses {refused}. `make families` writes this page, and
`make nightly-families` checks it.

Each kind gets a small model with random weights and windows of a few tokens, {prompts} prompts of
{shortest} to {longest} tokens, and answers of {drawn} tokens. It is *served* if every token of
every answer, in steps of at most 7 tokens, is the one that transformers computes in one pass with
its own eager attention, in float32. The last column bounds the difference of log probabilities.
The engine repeats a part of this comparison with every model that it loads, with the model's own
weights. `model_type` is the field of `config.json`. Of models that also read images or sound, it
serves the language model.
"""


def _heading(total: int, served: int) -> Sequence[str]:
    text = INTRODUCTION.format(
        version=transformers.__version__,
        total=total,
        served=served,
        refused=total - served,
        prompts=len(LENGTHS),
        shortest=LENGTHS[0],
        longest=LENGTHS[-1],
        drawn=DRAWN,
    )
    paragraphs = [fill(part, 118) for part in text.split("\n\n")]
    return ("# Families of models", "", *(line for part in paragraphs for line in (part, "")))


def _bound(gap: float) -> str:
    bound = next((bound for bound in BOUNDS if gap <= bound), gap)
    return f"{bound:.0e}".replace("e-0", "e-")
