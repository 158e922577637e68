"""The view of models: a card for each, with its backends, what they can and what they cost."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

from strowger_gateway.gateway.console.models.summary import (
    ModelBackend,
    ModelsAsked,
    ModelSummaries,
    ModelSummary,
    PriceSource,
    PriceView,
)
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_SECTION: Final = say.template("""
<section id="model-list" aria-label="[[Models]]">
<form class="row filters" method="get" action="/admin/view/models">
<label class="grow">[[Name, alias or backend]] <input name="search" type="search"
 value="{search}" maxlength="200" autocomplete="off"></label>
<button class="primary">[[Show]]</button>
</form>
{models}
{pages}
</section>
""")
_MODEL: Final = say.template("""
<div class="card table plain models">
<header><h2>{name}</h2><p class="facts">{facts}</p>
<a class="button" href="/admin/view/requests?{query}">[[Requests of the last hour]]</a></header>
<table>
<thead><tr><th scope="col">[[Backend]]</th><th scope="col">[[State]]</th>
<th scope="col" class="n">[[Context]]</th><th scope="col" class="n">[[Longest answer]]</th>
<th scope="col">[[Abilities]]</th><th scope="col" class="n">[[Input]]</th>
<th scope="col" class="n">[[Cached]]</th><th scope="col" class="n">[[Output]]</th>
<th scope="col">[[Price from]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</div>
""")
_ROW: Final = say.template("""<tr>
<th scope="row">{name} <span class="quiet">{share}</span></th>
<td data-label="[[State]]"><span class="state {tone}">{state}</span></td>
<td class="n" data-label="[[Context]]">{context}</td>
<td class="n" data-label="[[Longest answer]]">{longest}</td>
<td data-label="[[Abilities]]">{abilities}</td>
<td class="n" data-label="[[Input]]">{input}</td>
<td class="n" data-label="[[Cached]]">{cached}</td>
<td class="n" data-label="[[Output]]">{output}</td>
<td data-label="[[Price from]]">{source}</td>
</tr>""")
_SOURCE: Final = Markup('<span title="{title}">{text}</span>{since}')
_OWN: Final = Markup('<a href="/admin/view/config?section=prices">{}</a>')
_UNKNOWN: Final = Markup('<span class="tag bad" title="{}">{}</span>')
_QUIET: Final = Markup(' <span class="quiet">{}</span>')
_EMPTY: Final = Markup('<p class="empty">{}</p>')
_PAGES: Final = Markup('<nav class="pages" aria-label="{}">{}{}</nav>')
_PAGE: Final = Markup('<a class="button" href="/admin/view/models?{}">{}</a> ')
_NONE: Final = "–"
_UNIT: Final = sentence("US dollars per million tokens")
_POLICIES: Final = {
    "in_order": sentence("in order"),
    "weighted": sentence("weighted"),
    "least_busy": sentence("least busy"),
    "lowest_latency": sentence("lowest latency"),
    "lowest_cost": sentence("lowest cost"),
    "sticky": sentence("sticky"),
    "prefix_affinity": sentence("prefix affinity"),
}
_SOURCES: Final[dict[PriceSource, str]] = {
    "own": sentence("own row"),
    "catalogue": sentence("published prices"),
    "stated": sentence("stated by the vendor"),
    "unknown": sentence("unknown"),
}


def sections(found: ModelSummaries, asked: ModelsAsked) -> Markup:
    cards = Markup().join(map(_model, found.models))
    return _SECTION.format(
        search=asked.search,
        models=cards or _EMPTY.format(say("No model matches.")),
        pages=_pages(found, asked),
    )


def _model(model: ModelSummary) -> Markup:
    return _MODEL.format(
        name=model.name,
        facts=" · ".join(_facts(model)),
        query=urlencode({"model": model.name, "since": "1h"}),
        rows=Markup().join(map(_row, model.backends)),
    )


def _facts(model: ModelSummary) -> Iterator[str]:
    yield say(_POLICIES.get(model.policy, model.policy))
    if model.aliases:
        yield say("aliases {names}", names=", ".join(model.aliases))
    for rule in model.when:
        yield f"{rule.when}: {', '.join(rule.backends)}"
    if model.experiment is not None:
        yield say("experiment {name}", name=model.experiment.name)
    if model.mirror is not None:
        share = f"{100 * model.mirror.share:.4g}"
        yield say("copies of {share} % to {backend}", share=share, backend=model.mirror.backend)
    if model.fallback:
        yield say("fallback to {names}", names=", ".join(model.fallback))
    for row in model.fallback_by_error:
        yield f"{', '.join(row.codes)}: {', '.join(row.models)}"
    yield say(_UNIT)


def _row(one: ModelBackend) -> Markup:
    price = one.price
    return _ROW.format(
        name=f"{one.name} @ {one.replica}" if one.replica else one.name,
        share=_share(one),
        tone="bad" if not one.up else "good" if one.tried else "",
        state=one.state,
        context=_count(one.context),
        longest=_count(one.max_output),
        abilities=", ".join(_abilities(one)) or _NONE,
        input=_dollars(price.input),
        cached=_dollars(price.cached_input),
        output=_dollars(price.output),
        source=_source(price),
    )


def _share(one: ModelBackend) -> str:
    if one.variants:
        return say("variant {names}", names=", ".join(one.variants))
    return say("by rule") if one.share is None else say("weight {weight}", weight=f"{one.share:g}")


def _count(tokens: int | None) -> str:
    return _NONE if tokens is None else f"{tokens:,}"


def _dollars(price: float | None) -> str:
    return _NONE if price is None else f"${price:,.10g}"


def _abilities(one: ModelBackend) -> Iterator[str]:
    """Yield what it is known to take and to do, and what it is known not to."""
    for kind in one.input or ():
        if kind != "text":
            yield kind
    if one.tools is not None:
        yield say("tools") if one.tools else say("no tools")
    if one.reasoning is not None:
        yield say("reasoning") if one.reasoning else say("no reasoning")
    if one.structured_output is not None:
        known = one.structured_output
        yield say("structured output") if known else say("no structured output")
    if one.retires:
        yield say("retires {day}", day=one.retires)


def _source(price: PriceView) -> Markup:
    text = say(_SOURCES[price.source])
    if price.source == "unknown":
        return _UNKNOWN.format(price.unknown, text)
    shown = _OWN.format(price.where) if price.source == "own" else Markup("{}").format(text)
    title = ", ".join(note for note in (price.where, price.url) if note)
    notes = [price.since] if price.since else []
    notes += [say("more above {tokens} tokens", tokens=f"{one:,}") for one in price.above]
    since = _QUIET.format(", ".join(notes)) if notes else Markup()
    return _SOURCE.format(title=title, text=shown, since=since)


def _pages(found: ModelSummaries, asked: ModelsAsked) -> Markup:
    query = {"search": asked.search} if asked.search else {}
    if asked.limit != ModelsAsked().limit:
        query["limit"] = str(asked.limit)
    links = Markup()
    if asked.offset:
        before = str(max(0, asked.offset - asked.limit))
        links += _PAGE.format(urlencode({**query, "offset": before}), say("Previous"))
    end = asked.offset + len(found.models)
    if end < found.total:
        links += _PAGE.format(urlencode({**query, "offset": str(end)}), say("Next"))
    counted = say("{shown} of {total} models", shown=len(found.models), total=found.total)
    return _PAGES.format(say("Pages"), links, _QUIET.format(counted))
