"""The view of the cache: what it has saved by model, what it keeps, and forms that clear it."""

from typing import Final

from markupsafe import Markup

from strowger_gateway.gateway.content.cache.inspection.answer import (
    CacheAsked,
    CacheView,
    ModelCacheUse,
)
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_SECTION: Final = say.template("""
<section id="cache" aria-label="[[Response cache]]">
{notes}
<form class="row filters" method="get" action="/admin/view/cache">
<label>[[Since]] <input name="since" value="{since}" maxlength="64" autocomplete="off"></label>
<button class="primary">[[Show]]</button>
</form>
<dl class="tiles">{tiles}</dl>
<h2>[[By model]]</h2>
<div class="card table plain">{models}</div>
<h2>[[Clear]]</h2>
<details class="card act"><summary>[[Forget cached answers]]</summary>
<form method="post" action="/admin/view/cache/clear">
<p>[[The next equal requests go to the backends again. Only the role admin may do it.]]</p>
<label>[[Model]] <select name="model">{names}</select></label>
<label class="check"><input type="checkbox" required> {confirm}</label>
<button class="danger">[[Clear]]</button>
</form></details>
</section>
""")
_TILE: Final = Markup(
    '<div class="card tile"><dt>{}</dt><dd class="big">{}</dd><dd class="more">{}</dd></div>'
)
_TABLE: Final = say.template("""<table>
<thead><tr><th scope="col">[[Model]]</th><th scope="col" class="n">[[Hits]]</th>
<th scope="col" class="n">[[Misses]]</th><th scope="col" class="n">[[Bypassed]]</th>
<th scope="col" class="n">[[Hit rate]]</th><th scope="col" class="n">[[Saved tokens]]</th>
<th scope="col" class="n">[[Saved, about]]</th><th scope="col" class="n">[[Answers kept]]</th>
</tr></thead><tbody>{rows}</tbody></table>""")
_ROW: Final = say.template("""<tr><th scope="row">{model}</th>
<td class="n" data-label="[[Hits]]">{hits}</td>
<td class="n" data-label="[[Misses]]">{misses}</td>
<td class="n" data-label="[[Bypassed]]">{bypasses}</td>
<td class="n" data-label="[[Hit rate]]">{rate}</td>
<td class="n" data-label="[[Saved tokens]]">{tokens}</td>
<td class="n" data-label="[[Saved, about]]">{usd}</td>
<td class="n" data-label="[[Answers kept]]">{entries}</td></tr>""")
_EMPTY: Final = Markup('<p class="empty">{}</p>')
_WARNING: Final = Markup('<p class="verdict warn">{}</p>')
_OPTION: Final = Markup('<option value="{}">{}</option>')
_WHERE: Final = {
    "memory": sentence("in memory, of each worker"),
    "redis": sentence("in Redis, of all gateways"),
    "off": sentence("the configuration has no cache"),
}
_CONFIRM: Final = {
    "memory": sentence("Forget them in this gateway; others keep theirs."),
    "redis": sentence("Forget them in all gateways."),
    "off": sentence("Forget them in this gateway; others keep theirs."),
}
_NONE: Final = "–"
_MIB: Final = 1024 * 1024


def sections(found: CacheView, asked: CacheAsked) -> Markup:
    rows = Markup().join(map(_row, found.models))
    nothing = _EMPTY.format(say("No request has asked for a cached answer in this time."))
    names = {"": say("all models"), **{one.model: one.model for one in found.models}}
    return _SECTION.format(
        notes=_notes(found),
        since=asked.since,
        tiles=_tiles(found),
        models=_TABLE.format(rows=rows) if rows else nothing,
        confirm=say(_CONFIRM[found.where]),
        names=Markup().join(_OPTION.format(value, label) for value, label in names.items()),
    )


def _notes(found: CacheView) -> Markup:
    notes = Markup()
    if not found.recorded:
        notes += _WARNING.format(say("Requests are not recorded, because there is no store."))
    if not found.complete:
        notes += _WARNING.format(say("Not all kept answers could be counted in time."))
    return notes


def _tiles(found: CacheView) -> Markup:
    hits = sum(one.hits for one in found.models)
    asked = hits + sum(one.misses for one in found.models)
    dollars = [one.saved_usd for one in found.models if one.saved_usd is not None]
    tokens = sum(one.saved_prompt_tokens + one.saved_completion_tokens for one in found.models)
    size = f"{found.bytes / _MIB:,.1f} MiB" if found.where == "memory" else ""
    most = say("of {size} MiB", size=f"{found.max_bytes / _MIB:,.0f}") if found.max_bytes else ""
    return Markup().join(
        (
            _TILE.format(say("Hit rate"), _share(hits / asked if asked else None), f"{hits:,}"),
            _TILE.format(
                say("Saved, about"),
                _dollars(sum(dollars) if dollars else None),
                say("{count} tokens", count=f"{tokens:,}"),
            ),
            _TILE.format(say("Answers kept"), f"{found.entries:,}", say(_WHERE[found.where])),
            _TILE.format(say("Memory"), size or _NONE, most),
            _TILE.format(
                say("Shared answers"),
                f"{found.shared:,}",
                say("hits that waited for an equal request"),
            ),
            _TILE.format(
                say("Left early"),
                f"{found.evicted:,}",
                say("{count} uses of Redis failed", count=found.failures),
            ),
        )
    )


def _row(one: ModelCacheUse) -> Markup:
    return _ROW.format(
        model=one.model,
        hits=f"{one.hits:,}",
        misses=f"{one.misses:,}",
        bypasses=f"{one.bypasses:,}",
        rate=_share(one.hit_rate),
        tokens=f"{one.saved_prompt_tokens + one.saved_completion_tokens:,}",
        usd=_dollars(one.saved_usd),
        entries=f"{one.entries:,}",
    )


def _share(part: float | None) -> str:
    return _NONE if part is None else f"{100 * part:.1f} %"


def _dollars(usd: float | None) -> str:
    if usd is None:
        return _NONE
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.6f}"
