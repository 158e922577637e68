"""What `GET /admin/guardrails` answers: counts by rule and by time, and the last requests."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.guardrails.findings.column import RuleFinding, findings_in
from strowger_gateway.gateway.content.guardrails.findings.rows import FoundRequest, FoundRequests
from strowger_gateway.gateway.platform.moments import moment
from strowger_gateway.schemas.errors import InvalidRequest

STEPS: Final = 24
_Text = Annotated[str, Meta(max_length=256)]
_Time = Annotated[
    str, Meta(max_length=64, description="an age such as 15m, Unix seconds, or ISO 8601")
]


class FindingsAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which findings."""

    since: _Time = "24h"
    until: _Time = ""
    guardrail: _Text = ""
    rule: _Text = ""
    action: _Text = ""
    model: _Text = ""
    key: _Text = ""
    team: _Text = ""
    limit: Annotated[int, Meta(ge=1, le=1_000, description="number of requests listed")] = 50


class ConfiguredRail(Struct, frozen=True, kw_only=True):
    """An entry of `guardrails`."""

    name: str
    use: str
    mode: str
    where: str


class RuleCount(Struct, frozen=True, kw_only=True):
    """requests: in which the rule has found something, with this action. last: Unix seconds."""

    guardrail: str
    rule: str
    action: str
    requests: int
    last: float


class FindingsStep(Struct, frozen=True, kw_only=True):
    """An interval of equal length. requests: with findings. begin: Unix seconds."""

    begin: float
    requests: int


class ListedFinding(Struct, frozen=True, kw_only=True):
    """A request with findings, without its content. time: its end, Unix seconds."""

    time: float
    id: str
    status: int
    key: str
    team: str
    user: str
    model: str
    backend: str
    findings: tuple[RuleFinding, ...]


class GuardrailFindings(Struct, frozen=True, kw_only=True):
    """recorded: there is a store to read from. complete: false if there were more than are counted.

    since, until: Unix seconds. rules: the most frequent first. requests: the newest first.
    """

    since: float
    until: float
    guardrails: tuple[ConfiguredRail, ...]
    recorded: bool
    complete: bool
    total: int
    rules: tuple[RuleCount, ...] = ()
    steps: tuple[FindingsStep, ...] = ()
    requests: tuple[ListedFinding, ...] = ()


def span_of(asked: FindingsAsked) -> tuple[float, float]:
    """Return since and until, Unix seconds. Raises InvalidRequest."""
    now = time.time()
    since, until = (
        _moment(name, text or "0s", now)
        for name, text in (("since", asked.since), ("until", asked.until))
    )
    if until <= since:
        raise InvalidRequest("until: is not after since", param="until")
    return since, until


def summary(
    config: Config, asked: FindingsAsked, span: tuple[float, float], found: FoundRequests | None
) -> GuardrailFindings:
    """found: what the store has in that span; `None` without a store."""
    since, until = span
    requests = [] if found is None else list(_matching(found.requests, asked))
    counts: Counter[RuleFinding] = Counter()
    last: dict[RuleFinding, float] = {}
    for one in requests:
        for finding in one.findings:
            counts[finding] += 1
            last[finding] = max(one.time, last.get(finding, 0.0))
    return GuardrailFindings(
        since=since,
        until=until,
        guardrails=tuple(
            ConfiguredRail(name=one.name, use=one.use, mode=str(one.mode), where=one.where)
            for one in config.guardrails
        ),
        recorded=found is not None,
        complete=found is None or found.complete,
        total=len(requests),
        rules=tuple(
            RuleCount(
                guardrail=one.guardrail,
                rule=one.rule,
                action=one.action,
                requests=count,
                last=last[one],
            )
            for one, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        ),
        steps=_steps(requests, since, until),
        requests=tuple(requests[: asked.limit]),
    )


def _moment(name: str, text: str, now: float) -> float:
    try:
        return moment(text, now)
    except ValueError as exc:
        raise InvalidRequest(f"{name}: {exc}", param=name) from None


def _matching(found: Sequence[FoundRequest], asked: FindingsAsked) -> list[ListedFinding]:
    """Return the requests of which a finding matches, with those findings."""
    listed: list[ListedFinding] = []
    for one in found:
        if any(
            wanted and wanted != value
            for wanted, value in (
                (asked.model, one.model),
                (asked.key, one.key),
                (asked.team, one.team),
            )
        ):
            continue
        findings = tuple(each for each in findings_in(one.found) if _wanted(each, asked))
        if findings:
            listed.append(
                ListedFinding(
                    time=one.time,
                    id=one.id,
                    status=one.status,
                    key=one.key,
                    team=one.team,
                    user=one.user,
                    model=one.model,
                    backend=one.backend,
                    findings=findings,
                )
            )
    return listed


def _wanted(one: RuleFinding, asked: FindingsAsked) -> bool:
    return (
        asked.guardrail in ("", one.guardrail)
        and asked.rule in ("", one.rule)
        and asked.action in ("", one.action)
    )


def _steps(
    requests: Sequence[ListedFinding], since: float, until: float
) -> tuple[FindingsStep, ...]:
    width = (until - since) / STEPS
    counts = Counter(min(STEPS - 1, int((one.time - since) / width)) for one in requests)
    return tuple(
        FindingsStep(begin=since + step * width, requests=counts[step]) for step in range(STEPS)
    )
