"""What is recorded of a request in which guardrails have found something."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.parts.columns import LONGEST, Attributed, Column

FINDINGS: Final = Column(
    name="guardrails",
    kind=str,
    about="What guardrails found, without content: GUARDRAIL/RULE:ACTION, separated by semicolons.",
)
_BETWEEN: Final = "; "


class RuleFinding(Struct, frozen=True, order=True):
    """A rule that has found something in a request. action: mask, block, monitor or failed."""

    guardrail: str
    rule: str
    action: str


def record_findings(record: Attributed, findings: Iterable[str]) -> None:
    """findings: GUARDRAIL/RULE:ACTION, each once."""
    FINDINGS.set(record, _BETWEEN.join(findings))


def findings_in(text: str) -> Iterator[RuleFinding]:
    """Yield what was recorded; of a text that was cut, all but the last."""
    found = text.split(_BETWEEN)
    if len(text) >= LONGEST:
        del found[-1:]
    for one in found:
        place, _, action = one.rpartition(":")
        guardrail, _, rule = place.partition("/")
        if action:
            yield RuleFinding(guardrail, rule, action)
