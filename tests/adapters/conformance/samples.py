"""Which samples each adapter has: a whole answer, a stream, a tool call and an error.

`python -m tests.adapters.conformance.samples` writes the table in docs/recordings.md. Only samples
of the adapter's own vendor count: that another vendor speaks the same dialect proves nothing.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.adapters.conformance.recordings import Recording, recordings, request_for
from strowger_gateway.adapters.conformance.replay import translate
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.testing import contract_endpoint
from strowger_gateway.schemas.events import ToolDelta
from strowger_gateway.schemas.requests import WholeRequest
from tests.adapters.traffic import FIXTURES

Form = Literal["whole", "stream", "tool call", "error"]
Evidence = Literal["recorded", "reported", "documented", "none", ""]
"""`none`: not found. "": a sample without a `SOURCE`."""

FORMS: tuple[Form, ...] = ("whole", "stream", "tool call", "error")
KINDS: Mapping[str, Evidence] = {
    "raw": "recorded",
    "reserialised": "recorded",
    "fixture": "recorded",
    "reported": "reported",
    "docs": "documented",
    "documented": "documented",
}
"""Kinds of a `SOURCE`, which tests/adapters/fixtures/README.md describes."""

PAGE = Path(__file__).parents[3] / "docs" / "recordings.md"
BEGINS = "<!-- samples: written by `python -m tests.adapters.conformance.samples` -->\n"
ENDS = "\n<!-- end of samples -->"

REGISTRY = Registry(())

_SHARED: Mapping[str, tuple[str, ...]] = {
    "huggingface": ("huggingface/router",),
    "openai-responses": ("openai-responses/chat", "openai-responses/error-"),
    "triton": ("triton/generate", "triton/error-"),
    "triton-llmapi": ("triton/llm", "triton/error-"),
    "triton-tokens": ("triton/infer", "triton/error-"),
    "triton-tokens-decoupled": ("triton/tokens", "triton/error-"),
    "openrouter-responses": ("openrouter-responses/", "openai-responses/openrouter-"),
    "vertex-anthropic": ("anthropic/vertex-",),
}
"""Where an adapter's samples are, if not in a folder of its name: beginnings of their names."""

_NO_STREAM = frozenset({"triton-tokens"})
"""Adapters whose servers do not stream (`adapters/triton/tokens.py`)."""


class Sample(Struct, frozen=True, kw_only=True):
    """One sample. evidence: "" if it has no `SOURCE`: it shows what a decoder reads, no more."""

    recording: Recording
    evidence: Evidence
    forms: frozenset[Form]


def adapter(name: str) -> Adapter:
    base_url = REGISTRY.base_url(name) or "https://backend.test/v1"
    return REGISTRY.build(name, contract_endpoint(base_url))


def samples(name: str) -> list[Sample]:
    """Return the samples of the adapter's own vendor."""
    built = adapter(name)
    prefixes = _SHARED.get(name, (f"{name}/",))
    folders = dict.fromkeys(prefix.partition("/")[0] for prefix in prefixes)
    return [
        Sample(recording=one, evidence=_evidence(one), forms=_forms(built, one))
        for folder in folders
        for one in recordings(FIXTURES / folder)
        if one.name.startswith(prefixes)
    ]


def expected(name: str) -> tuple[Form, ...]:
    """Return the forms that an adapter's answers can have."""
    supports = adapter(name).supports
    generates = any(offered(supports, task) is not None for task in ("chat", "completion"))
    streams = (generates or name == "triton-tokens-decoupled") and name not in _NO_STREAM
    there: Mapping[Form, bool] = {
        "whole": True,
        "stream": streams,
        "tool call": "tools" in (supports.chat or ()),
        "error": True,
    }
    return tuple(form for form in FORMS if there[form])


def coverage(name: str) -> dict[Form, Evidence]:
    """Return the best evidence for each form, `none` if there is no sample with a source."""
    found = samples(name)
    cells = dict[Form, Evidence]()
    for form in expected(name):
        kinds = {one.evidence for one in found if form in one.forms}
        best: list[Evidence] = [kind for kind in KINDS.values() if kind in kinds]
        evidence: Evidence = best[0] if best else "none"
        cells[form] = evidence
    return cells


def table() -> str:
    """Return the table of docs/recordings.md."""
    rows = ["| adapter | whole | stream | tool call | error |", "|---|---|---|---|---|"]
    for name in REGISTRY.names:
        cells = coverage(name)
        rows.append(f"| {name} | " + " | ".join(cells.get(form, "-") for form in FORMS) + " |")
    return "\n".join(rows)


def source_of(name: str) -> Path:
    """Return the file that says where a sample is from; it need not exist."""
    return FIXTURES / name / "SOURCE"


def _evidence(one: Recording) -> Evidence:
    source = source_of(one.name)
    if not source.is_file():
        return ""
    return KINDS[source.read_text().split(" | ")[0]]


def _forms(built: Adapter, one: Recording) -> frozenset[Form]:
    if one.status != 200 or "error" in one.name:
        return frozenset({"error"})
    return frozenset(_answer_forms(built, one))


def _answer_forms(built: Adapter, one: Recording) -> Iterator[Form]:
    request = request_for(one)
    yield "stream" if one.streamed else "whole"
    if isinstance(request, WholeRequest):
        return
    if any(isinstance(event, ToolDelta) for event in translate(built, request, [one.body])):
        yield "tool call"


if __name__ == "__main__":
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGINS)
    after = rest.partition(ENDS)[2]
    PAGE.write_text(before + BEGINS + table() + ENDS + after)
