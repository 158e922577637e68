"""Print an explanation to the terminal."""

from collections.abc import Sequence

import click
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.console.explain.explanation import (
    ExplainedCandidate,
    ExplainedExperiment,
    ExplainedLimit,
    ExplainedRule,
    Explanation,
    Reason,
)
from strowger_gateway.gateway.routing.backend_status import describe

_FOUND = {"exact": "by its name", "alias": "by an alias", "wildcard": "by a wildcard"}


def print_explanation(found: Explanation) -> None:
    """Print to standard output."""
    show(_facts(found))
    if found.rules:
        _gap("`when` rules (the first match decides)")
        show(_rules(found))
    if found.candidates:
        bounds = found.bounds
        few = bounds is not None and bounds.attempts < len(found.candidates)
        most = f" (max {bounds.attempts} attempts)" if bounds is not None and few else ""
        _gap(f"candidates in order{most}; FIRST = share of requests tried here first")
        show(_candidates(found))
    if found.ruled_out:
        _gap("ruled out")
        show(_ruled_out(found))
    if found.fallback_by_error:
        _gap("tried instead after a failure with this code")
        show(_fallback_by_error(found))
    if found.limits:
        _gap("limits and budgets")
        show(_limits(found))
    if found.refused is not None:
        refused = found.refused
        click.echo(f"\nrejected with {refused.status} {refused.code}: {refused.message}")


def _gap(title: str) -> None:
    click.echo(f"\n{title}")


def _facts(found: Explanation) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    stream = ", streamed" if found.stream else ""
    table.add_row("request", escape(f"{found.task} at {found.path} ({found.surface}){stream}"))
    table.add_row("model", escape(repr(found.model)))
    if found.key:
        table.add_row("key", escape(found.key))
    if found.team:
        table.add_row("team", escape(found.team))
    if found.plan:
        table.add_row("plan", escape(found.plan))
    if found.end_user:
        table.add_row("end user", escape(found.end_user))
    if found.found is not None:
        how = _FOUND[found.found]
        table.add_row("route", escape(f"{found.route}, {how}; policy {found.policy}"))
    if found.experiment is not None:
        table.add_row("experiment", escape(_part(found.experiment)))
    if found.prompt is not None:
        prompt = found.prompt
        left = f"; repaired: {', '.join(prompt.repaired)}" if prompt.repaired else ""
        table.add_row("prompt", escape(f"{prompt.name} ({prompt.digest}), {prompt.why}{left}"))
    if found.compaction:
        table.add_row("compaction", escape(found.compaction))
    if found.fallback:
        table.add_row("fallback", escape(", ".join(found.fallback)))
    if found.down:
        table.add_row("assumed down", escape(", ".join(found.down)))
    if found.mirror is not None:
        share = f"{found.mirror.share * 100:.4g} %"
        reason = found.mirror.unsupported_reason
        unless = f", but not of this request: {reason}" if reason else ""
        table.add_row("mirror", escape(f"{found.mirror.backend} gets a copy of {share}{unless}"))
    bounds = found.bounds
    if bounds is not None:
        table.add_row(
            "limits",
            f"{bounds.attempts} attempts in {bounds.deadline_s:g} s; failover after "
            f"{', '.join(bounds.retry_on)}; retry on the same backend after a backoff of up "
            f"to {bounds.backoff_s:g} s, doubled up to {bounds.max_backoff_s:g} s",
        )
        if bounds.hedge_after_s is not None:
            table.add_row(
                "hedging",
                f"next backend in parallel after {bounds.hedge_after_s:g} s without content",
            )
        if bounds.stream_recovery == "continue":
            table.add_row(
                "recovery", "a stream that breaks off is continued by the next backend that can"
            )
        if bounds.stream_recovery == "restart":
            table.add_row(
                "recovery", "a stream is held until it is complete; what breaks off is not shown"
            )
    return table


def _part(seen: ExplainedExperiment) -> str:
    shares = ", ".join(
        f"{arm.name} {arm.share * 100:.4g} %{f' {arm.prompt}' if arm.prompt else ''}"
        for arm in seen.arms
    )
    unit = f"{seen.by} {seen.unit!r}" if seen.unit else seen.by
    assigned = f"variant {seen.variant} for " if seen.variant else ""
    excluded = f"; excluded: {seen.excluded}" if seen.excluded else ""
    return f"{seen.name} ({shares}): {assigned}{unit}{excluded}"


def _rules(found: Explanation) -> Table:
    table = table_of("RULE", "WHEN", "MATCHES", "BACKENDS")
    for place, rule in enumerate(found.rules, start=1):
        backends = "\n".join(rule.backends)
        table.add_row(str(place), escape(rule.when), escape(_holds(rule)), escape(backends))
    return table


def _holds(rule: ExplainedRule) -> str:
    if rule.holds is None:
        return "not evaluated"
    return "yes" if rule.holds else f"no: {'; '.join(rule.unmet)}"


def _candidates(found: Explanation) -> Table:
    table = table_of("", "BACKEND", "MODEL", "FIRST", "WHY", "CONTEXT", "RECEIVES")
    tried = {one.route for one in found.candidates if one.variant}
    for place, one in enumerate(found.candidates, start=1):
        spare = one.route in tried and not one.variant
        why = _why(one, found.down)
        table.add_row(
            str(place),
            escape(one.place),
            escape(one.route),
            "" if spare else f"{one.share * 100:.4g} %",
            escape(f"after the variant: {why}" if spare else why),
            "?" if one.context is None else f"{one.context:,}",
            escape("\n".join(_gets(one))),
        )
    return table


def _why(one: ExplainedCandidate, down: Sequence[str]) -> str:
    """down: backends that are assumed down, whose breaker state is simulated."""
    taken = {one.backend, one.backend.partition("/")[0], one.place}.intersection(down)
    health = "assumed down" if taken else describe(one.health)
    if not one.health.available:
        return f"{one.why}; {health}, but no other backend is better"
    later = one.health.deprioritised_for_s or one.health.slow
    return f"{one.why}; {health}" if later else one.why


def _gets(one: ExplainedCandidate) -> list[str]:
    lines = [f"{field} as {name}" for field, name in one.translated.items()]
    lines += [f"{field} set by the operator" for field in one.set]
    replaced = {value.partition("=")[0] for value in one.defaulted}
    missing = (*one.dropped, *one.omitted_content)
    lines += [f"without {field}" for field in missing if field not in replaced]
    lines += [value.replace("=", " ") for value in one.defaulted]
    for place, _, rule in (repair.rpartition(":") for repair in one.repaired):
        lines.append(f"{place} repaired ({rule})")
    lines = lines or ["the request unchanged"]
    return lines + [f"{name}: {value}" for name, value in one.headers.items()]


def _ruled_out(found: Explanation) -> Table:
    table = table_of("BACKEND", "MODEL", "WHY")
    for one in found.ruled_out:
        words = "\n".join(map(_reason, one.reasons))
        table.add_row(escape(one.backend), escape(one.route), escape(words))
    return table


def _reason(reason: Reason) -> str:
    return f"{reason.field} {reason.words}".strip()


def _limits(found: Explanation) -> Table:
    table = table_of("NAME", "SUBJECT", "OF", "NEEDS", "LEFT", "ALLOWED", "")
    for one in found.limits:
        what = "requests at once" if one.quantity == "concurrent" else one.quantity
        table.add_row(
            escape(one.name),
            escape(one.subject),
            f"{what} per {one.per}" if one.per else what,
            _amount(one.needs),
            "?" if one.left is None else _amount(one.left),
            _amount(one.allowed),
            escape(_verdict(one)),
        )
    return table


def _amount(value: float) -> str:
    """With the six decimals that small prices need."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _verdict(one: ExplainedLimit) -> str:
    if one.refuses:
        return "refuses"
    if one.moves_to:
        return f"sends it to {one.moves_to}"
    return "" if one.waits_s is None else f"holds it up to {one.waits_s:.3g} s"


def _fallback_by_error(found: Explanation) -> Table:
    table = table_of("CODE", "MODELS", "BACKENDS")
    for one in found.fallback_by_error:
        backends = "\n".join(one.backends) or "none supports this request"
        table.add_row(escape(one.code), escape(", ".join(one.models)), escape(backends))
    return table
