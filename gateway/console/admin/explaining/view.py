"""The form of a request, and its explanation as tables."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.governance.markup import problem
from strowger_gateway.gateway.console.explain.explanation import Explanation
from strowger_gateway.gateway.console.explain.tables import (
    ExplainedTable,
    explained_tables,
    rejection,
)
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.surfaces.routes import SURFACES
from strowger_gateway.schemas.errors import GatewayError

say = words_of(__file__)

_FORM: Final = say.template("""
<section id="explain" aria-label="[[The request]]">
{problem}
<div class="card make asked">
<form method="post" action="/admin/view/explain">
<p class="quiet">[[Nothing is sent, and no limit or budget counts it.]]</p>
<label class="body">[[Body, as the client would send it]]
<textarea name="body" rows="8" required spellcheck="false" autocomplete="off">{body}</textarea>
</label>
<div class="fields">
<label>[[Endpoint or API; empty: by the body]]
<input name="path" value="{path}" list="explain-paths" autocomplete="off"></label>
<label>[[Model, if the path names it]]
<input name="model" value="{model}" list="explain-models" autocomplete="off"></label>
<label>[[API key, by its name]]
<input name="key" value="{key}" list="explain-keys" autocomplete="off"></label>
<label>[[Assume down: backends or providers]]
<input name="down" value="{down}" list="explain-backends" autocomplete="off"></label>
<label>[[Headers, one a line]]
<textarea name="headers" rows="2" spellcheck="false" autocomplete="off"
 placeholder="x-team: search">{headers}</textarea></label>
<label>[[Claims of a token, instead of a key]]
<textarea name="claims" rows="2" spellcheck="false" autocomplete="off"
 placeholder="JSON">{claims}</textarea></label>
</div>
{lists}
<div class="row"><button class="primary">[[Explain]]</button></div>
</form>
</div>
</section>
""")
_LIST: Final = Markup('<datalist id="explain-{}">{}</datalist>')
_OPTION: Final = Markup('<option value="{}">')
_SECTION: Final = Markup('<section id="explained" aria-label="{}">{}{}</section>')
_TABLE: Final = Markup("""<div class="card table plain scroll explained">{title}<table>{head}
<tbody>{rows}</tbody></table></div>
""")
_TITLE: Final = Markup("<header><h2>{}</h2></header>")
_HEAD: Final = Markup("<thead><tr>{}</tr></thead>")
_COLUMN: Final = Markup('<th scope="col">{}</th>')
_ROW: Final = Markup("<tr>{}</tr>")
_FIRST: Final = Markup('<th scope="row">{}</th>')
_CELL: Final = Markup('<td data-label="{}">{}</td>')
_BREAK: Final = Markup("<br>")


class ShownExplanation(Struct, frozen=True, kw_only=True):
    """fields: as they were sent. models, keys, backends: suggestions."""

    fields: Mapping[str, str]
    models: Sequence[str]
    keys: Sequence[str]
    backends: Sequence[str]


def form_section(form: ShownExplanation, refused: GatewayError | None = None) -> Markup:
    fields = form.fields
    lists = {
        "paths": SURFACES,
        "models": form.models,
        "keys": form.keys,
        "backends": form.backends,
    }
    return _FORM.format(
        problem=Markup() if refused is None else problem(refused.message),
        body=fields.get("body") or _example(form),
        lists=Markup().join(
            _LIST.format(name, Markup().join(map(_OPTION.format, values)))
            for name, values in lists.items()
        ),
        **{
            name: fields.get(name, "")
            for name in ("path", "model", "key", "down", "headers", "claims")
        },
    )


def explanation_section(found: Explanation) -> Markup:
    tables = Markup().join(map(_table, explained_tables(found)))
    return _SECTION.format(say("Where it would go"), problem(rejection(found)), tables)


def _example(form: ShownExplanation) -> str:
    model = form.models[0] if form.models else "MODEL"
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return msgspec.json.format(msgspec.json.encode(body)).decode()


def _table(one: ExplainedTable) -> Markup:
    labels = one.columns or ("",) * max(len(row) for row in one.rows)
    rows = (
        Markup().join(
            _CELL.format(label, _lines(cell)) if place else _FIRST.format(_lines(cell))
            for place, (label, cell) in enumerate(zip(labels, row, strict=True))
        )
        for row in one.rows
    )
    return _TABLE.format(
        title=_TITLE.format(one.title) if one.title else "",
        head=_HEAD.format(Markup().join(map(_COLUMN.format, one.columns))) if one.columns else "",
        rows=Markup().join(map(_ROW.format, rows)),
    )


def _lines(text: str) -> Markup:
    return _BREAK.join(text.split("\n"))
