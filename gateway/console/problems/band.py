"""The band at the top of the page: what is wrong now, since when; and the state of the gateway."""

import time
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from strowger_gateway.gateway.console.problems.problem import GatewayProblem, Severity
from strowger_gateway.gateway.console.problems.words import said
from strowger_gateway.gateway.platform.formatting import span
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

SHOWN: Final = 8
"""Problems that are listed at once; the rest opens."""

_BAND = say.template("""
<section id="problems" data-live class="problems {tone}" aria-label="[[What is wrong now]]"{hidden}>
<ul>{rows}</ul>
{more}
</section>
""")
_ROW = Markup(
    '<li><a class="state {tone}" href="{view}">{what}</a> <span class="quiet">{more}</span></li>'
)
_MORE = say.template("""<details id="more-problems"><summary>[[{count} more]]</summary>
<ul>{rows}</ul></details>""")
_TONES: Final = {"critical": "bad", "warning": "warn", "notice": ""}


def band(problems: Sequence[GatewayProblem], at: float | None = None) -> Markup:
    """Render the band; it is hidden without problems. at: Unix seconds; `None` for now."""
    now = time.time() if at is None else at
    rows = [_row(one, now) for one in problems]
    more = Markup()
    if len(rows) > SHOWN:
        more = _MORE.format(count=len(rows) - SHOWN, rows=Markup().join(rows[SHOWN:]))
    return _BAND.format(
        tone=_TONES[problems[0].severity] if problems else "",
        rows=Markup().join(rows[:SHOWN]),
        more=more,
        hidden="" if rows else Markup(" hidden"),
    )


def state_of(problems: Sequence[GatewayProblem]) -> tuple[str, str]:
    """Return a tone and a label for the bar. problems: the heaviest first."""
    kinds = {one.kind for one in problems}
    if "draining" in kinds:
        return "warn", say("draining")
    if "loading" in kinds:
        return "warn", say("loading")
    for severity in ("critical", "warning"):
        many = _count(problems, severity)
        if many:
            return _TONES[severity], _label(severity, many)
    return "good", say("ready")


def _count(problems: Sequence[GatewayProblem], severity: Severity) -> int:
    return sum(one.severity == severity for one in problems)


def _label(severity: Severity, many: int) -> str:
    if severity == "critical":
        if many == 1:
            return say("1 serious problem")
        return say("{count} serious problems", count=many)
    return say("ready · 1 warning") if many == 1 else say("ready · {count} warnings", count=many)


def _row(one: GatewayProblem, now: float) -> Markup:
    parts = [] if one.since is None else [say("for {time}", time=span(max(0.0, now - one.since)))]
    if one.gateway:
        parts.append(say("seen by {gateway}", gateway=one.gateway))
    if one.cause:
        parts.append(one.cause)
    return _ROW.format(
        tone=_TONES[one.severity], view=one.view, what=said(one), more=" · ".join(parts)
    )
