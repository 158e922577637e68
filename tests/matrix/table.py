"""Generate docs/matrix.md from the measurements."""

from collections.abc import Mapping

from tests.matrix.agent_questions import ALL_SURFACES, HAS_NO_FORM_ANYWHERE
from tests.matrix.backends import BACKENDS
from tests.matrix.outcome import Outcome
from tests.matrix.questions import FEATURES, Feature

Cells = Mapping[tuple[str, Feature, str], Outcome]
"""By surface, feature and backend."""

HEAD = """# Feature matrix

Every client API, every type of backend and every feature: whether it works, or why it is rejected.
No feature is dropped silently. `make matrix` generates this page from requests to a running
gateway, and a test checks it against the code.

- **✓**: the response contains what the request asks for.
- **✓ −**: the response comes without the named fields, and `x-gateway-dropped-params` lists them
  (the client's dialect never rejects them).
- A number links to the reason in the client's 400.
- **–**: the client's dialect cannot express the feature.

The local engine is real and runs tiny models; the others are servers on loopback that implement and
check the vendor's documented API. *+ tokenizer* is the same provider with `tokenizer:` set
([tokens.md](tokens.md)).
"""


def page(cells: Cells) -> str:
    reasons: dict[str, int] = {}
    tables = [f"## {surface}\n\n{_table(surface, cells, reasons)}" for surface in ALL_SURFACES]
    numbered = "\n".join(f"{number}. {reason}" for reason, number in reasons.items())
    return "\n".join([HEAD, *tables, "## Reasons\n", numbered, "", _no_form()])


def _table(surface: str, cells: Cells, reasons: dict[str, int]) -> str:
    rows = [f"| backend | {' | '.join(FEATURES)} |", "|---" * (len(FEATURES) + 1) + "|"]
    for backend in BACKENDS:
        marks = [_mark(surface, feature, backend.name, cells, reasons) for feature in FEATURES]
        rows.append(f"| {backend.title} | {' | '.join(marks)} |")
    return "\n".join(rows) + "\n"


def _mark(
    surface: str, feature: Feature, backend: str, cells: Cells, reasons: dict[str, int]
) -> str:
    if (surface, feature) in HAS_NO_FORM_ANYWHERE:
        return "–"
    outcome = cells[surface, feature, backend]
    if outcome.kind == "works":
        return " − ".join(["✓", *(f"`{name}`" for name in outcome.dropped)])
    return f"[{reasons.setdefault(outcome.reason, len(reasons) + 1)}](#reasons)"


def _no_form() -> str:
    lines = [
        f"- {surface}, {feature}: {why}."
        for (surface, feature), why in HAS_NO_FORM_ANYWHERE.items()
    ]
    return "\n".join(["## Not expressible\n", *lines, ""])
