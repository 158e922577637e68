"""An explanation as tables of texts, for the command and for the page: both use the same words."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from strowger_gateway.gateway.console.explain.explanation import (
    ExplainedCandidate,
    ExplainedExperiment,
    ExplainedLimit,
    ExplainedRule,
    Explanation,
    Reason,
)
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.routing.backend_status import describe

say = words_of(__file__)

_FOUND = {"exact": "by its name", "alias": "by an alias", "wildcard": "by a wildcard"}


class ExplainedTable(Struct, frozen=True, kw_only=True):
    """title: above it, "" for none. columns: their headings; none for a list of names and values.

    rows: a cell may have several lines.
    """

    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...]


def explained_tables(found: Explanation) -> Iterator[ExplainedTable]:
    """Yield what the explanation has, in the order in which people read it."""
    yield ExplainedTable(rows=tuple(_facts(found)))
    if found.rules:
        yield ExplainedTable(
            title=say("`when` rules (the first match decides)"),
            columns=(say("RULE"), say("WHEN"), say("MATCHES"), say("BACKENDS")),
            rows=tuple(_rules(found)),
        )
    if found.candidates:
        bounds = found.bounds
        few = bounds is not None and bounds.attempts < len(found.candidates)
        most = (
            say(" (max {count} attempts)", count=bounds.attempts)
            if bounds is not None and few
            else ""
        )
        yield ExplainedTable(
            title=say(
                "candidates in order{most}; FIRST = share of requests tried here first", most=most
            ),
            columns=(
                "",
                say("BACKEND"),
                say("MODEL"),
                say("FIRST"),
                say("WHY"),
                say("CONTEXT"),
                say("RECEIVES"),
            ),
            rows=tuple(_candidates(found)),
        )
    if found.ruled_out:
        yield ExplainedTable(
            title=say("ruled out"),
            columns=(say("BACKEND"), say("MODEL"), say("WHY")),
            rows=tuple(_ruled_out(found)),
        )
    if found.fallback_by_error:
        yield ExplainedTable(
            title=say("tried instead after a failure with this code"),
            columns=(say("CODE"), say("MODELS"), say("BACKENDS")),
            rows=tuple(_fallback_by_error(found)),
        )
    if found.limits:
        yield ExplainedTable(
            title=say("limits and budgets"),
            columns=(
                say("NAME"),
                say("SUBJECT"),
                say("OF"),
                say("NEEDS"),
                say("LEFT"),
                say("ALLOWED"),
                "",
            ),
            rows=tuple(_limits(found)),
        )


def rejection(found: Explanation) -> str:
    """Return with what error the request would end; "" if it would be sent."""
    refused = found.refused
    if refused is None:
        return ""
    return say(
        "rejected with {status} {code}: {message}",
        status=refused.status,
        code=refused.code,
        message=refused.message,
    )


def _facts(found: Explanation) -> Iterator[tuple[str, ...]]:
    stream = ", streamed" if found.stream else ""
    yield (say("request"), f"{found.task} at {found.path} ({found.surface}){stream}")
    yield (say("model"), repr(found.model))
    if found.key:
        yield (say("key"), found.key)
    if found.team:
        yield (say("team"), found.team)
    if found.plan:
        yield (say("plan"), found.plan)
    if found.end_user:
        yield (say("end user"), found.end_user)
    if found.found is not None:
        how = _FOUND[found.found]
        yield (say("route"), f"{found.route}, {how}; policy {found.policy}")
    if found.experiment is not None:
        yield (say("experiment"), _part(found.experiment))
    if found.prompt is not None:
        prompt = found.prompt
        left = f"; repaired: {', '.join(prompt.repaired)}" if prompt.repaired else ""
        yield (say("prompt"), f"{prompt.name} ({prompt.digest}), {prompt.why}{left}")
    if found.compaction:
        yield (say("compaction"), found.compaction)
    if found.fallback:
        yield (say("fallback"), ", ".join(found.fallback))
    if found.down:
        yield (say("assumed down"), ", ".join(found.down))
    if found.mirror is not None:
        share = f"{found.mirror.share * 100:.4g} %"
        reason = found.mirror.unsupported_reason
        unless = f", but not of this request: {reason}" if reason else ""
        yield (say("mirror"), f"{found.mirror.backend} gets a copy of {share}{unless}")
    bounds = found.bounds
    if bounds is not None:
        yield (
            say("limits"),
            f"{bounds.attempts} attempts in {bounds.deadline_s:g} s; failover after "
            f"{', '.join(bounds.retry_on)}; retry on the same backend after a backoff of up "
            f"to {bounds.backoff_s:g} s, doubled up to {bounds.max_backoff_s:g} s",
        )
        if bounds.hedge_after_s is not None:
            yield (
                say("hedging"),
                f"next backend in parallel after {bounds.hedge_after_s:g} s without content",
            )
        if bounds.stream_recovery == "continue":
            yield (
                say("recovery"),
                "a stream that breaks off is continued by the next backend that can",
            )
        if bounds.stream_recovery == "restart":
            yield (
                say("recovery"),
                "a stream is held until it is complete; what breaks off is not shown",
            )


def _part(seen: ExplainedExperiment) -> str:
    shares = ", ".join(
        f"{arm.name} {arm.share * 100:.4g} %{f' {arm.prompt}' if arm.prompt else ''}"
        for arm in seen.arms
    )
    unit = f"{seen.by} {seen.unit!r}" if seen.unit else seen.by
    assigned = f"variant {seen.variant} for " if seen.variant else ""
    excluded = f"; excluded: {seen.excluded}" if seen.excluded else ""
    return f"{seen.name} ({shares}): {assigned}{unit}{excluded}"


def _rules(found: Explanation) -> Iterator[tuple[str, ...]]:
    for place, rule in enumerate(found.rules, start=1):
        backends = "\n".join(rule.backends)
        yield (str(place), rule.when, _holds(rule), backends)


def _holds(rule: ExplainedRule) -> str:
    if rule.holds is None:
        return "not evaluated"
    return "yes" if rule.holds else f"no: {'; '.join(rule.unmet)}"


def _candidates(found: Explanation) -> Iterator[tuple[str, ...]]:
    tried = {one.route for one in found.candidates if one.variant}
    for place, one in enumerate(found.candidates, start=1):
        spare = one.route in tried and not one.variant
        why = _why(one, found.down)
        yield (
            str(place),
            one.place,
            one.route,
            "" if spare else f"{one.share * 100:.4g} %",
            f"after the variant: {why}" if spare else why,
            "?" if one.context is None else f"{one.context:,}",
            "\n".join(_gets(one)),
        )


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


def _ruled_out(found: Explanation) -> Iterator[tuple[str, ...]]:
    for one in found.ruled_out:
        words = "\n".join(map(_reason, one.reasons))
        yield (one.backend, one.route, words)


def _reason(reason: Reason) -> str:
    return f"{reason.field} {reason.words}".strip()


def _limits(found: Explanation) -> Iterator[tuple[str, ...]]:
    for one in found.limits:
        what = "requests at once" if one.quantity == "concurrent" else one.quantity
        yield (
            one.name,
            one.subject,
            f"{what} per {one.per}" if one.per else what,
            _amount(one.needs),
            "?" if one.left is None else _amount(one.left),
            _amount(one.allowed),
            _verdict(one),
        )


def _amount(value: float) -> str:
    """With the six decimals that small prices need."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _verdict(one: ExplainedLimit) -> str:
    if one.refuses:
        return "refuses"
    if one.moves_to:
        return f"sends it to {one.moves_to}"
    return "" if one.waits_s is None else f"holds it up to {one.waits_s:.3g} s"


def _fallback_by_error(found: Explanation) -> Iterator[tuple[str, ...]]:
    for one in found.fallback_by_error:
        backends = "\n".join(one.backends) or "none supports this request"
        yield (one.code, (", ".join(one.models)), backends)
