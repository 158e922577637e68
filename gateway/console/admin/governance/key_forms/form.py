"""The form of a key as HTML: an error next to each wrong field, and what was typed in all."""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.config.schema.units import MOST_URGENT
from strowger_gateway.gateway.console.admin.governance.key_forms.rule_rows import (
    FIELDS,
    MOST_ROWS,
    Kind,
    RuleField,
    rows_in,
)
from strowger_gateway.gateway.console.admin.governance.markup import options
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

MORE: Final = "more"
"""The name of the buttons that add a row; their values are those of `Kind`."""

_SPARE_MODELS: Final = 2
_MOST_MODELS: Final = 60
_FORM = say.template("""
<form method="post" action="{action}">
<button class="hidden" tabindex="-1" aria-hidden="true">{button}</button>
{names}
<div class="fields">{fields}</div>
<fieldset><legend>[[Models that it may use]]</legend>
<p class="quiet">[[Names, or patterns such as gpt-*. None: all.]]</p>
<div class="fields">{models}</div></fieldset>
{datalist}
<fieldset><legend>[[Limits of its own]]</legend>{limits}</fieldset>
<fieldset><legend>[[Budgets of its own]]</legend>{budgets}</fieldset>
<label class="check"><input type="checkbox" name="disabled" value="yes"{disabled}>
[[Disabled: requests with it get 401]]</label>
<div class="row"><button class="primary">{button}</button><p class="quiet">{note}</p></div>
</form>
""")
_NAMES = say.template("""<div class="fields">{name}</div>
<details{open}><summary>[[Issue several keys with these fields]]</summary>
<div class="fields"><label>[[Their names, one a line, instead of the one above]]
<textarea name="names" rows="4" spellcheck="false" autocomplete="off"{invalid}>{names}</textarea>
{error}</label></div></details>
""")
_LABEL = Markup("<label>{label} {input}{error}</label>")
_INPUT = Markup('<input name="{name}" value="{value}" autocomplete="off"{invalid}{more}>')
_SELECT = Markup('<select name="{name}"{invalid}>{choices}</select>')
_INVALID = Markup(' aria-invalid="true" aria-describedby="e-{}"')
_ERROR = Markup('<span class="problem" id="e-{}">{}</span>')
_PLACEHOLDER = Markup(' placeholder="{}"')
_LIST = Markup('<datalist id="models-known">{}</datalist>')
_KNOWN = Markup('<option value="{}">')
_ROW = say.template("""<div class="rule" role="group" aria-label="{label}">
<div class="fields">{main}</div>
<details{open}><summary>[[More of this rule]]</summary><div class="fields">{rest}</div></details>
</div>
""")
_MORE = Markup('<button name="{name}" value="{kind}" formnovalidate>{label}</button>')
_URGENT: Final = {
    "1": sentence("1: all"),
    "2": "2",
    "3": "3",
    "4": "4",
    "5": sentence("5: least urgent only"),
}
_ROWS: Final[Mapping[Kind, tuple[str, str]]] = {
    "limits": (sentence("Limit {number}"), sentence("Another limit")),
    "budgets": (sentence("Budget {number}"), sentence("Another budget")),
}
_SHOWN: Final[Mapping[Kind, int]] = {"limits": 4, "budgets": 3}
"""Fields of a row that are always visible; the others are in its disclosure."""


class KeyForm(Struct, frozen=True, kw_only=True):
    """What a form shows.

    action: where it is sent to. teams: that may be chosen; with "" for none.
    models: those of the configuration. named: it asks for the name, so it issues a key.
    values: its fields. errors: by field. more: the kind of which another row is wanted.
    """

    action: str
    button: str
    note: str
    teams: Sequence[str]
    models: Sequence[str]
    named: bool = False
    values: Mapping[str, str] = {}
    errors: Mapping[str, str] = {}
    more: str = ""


def key_form(form: KeyForm) -> Markup:
    return _FORM.format(
        action=form.action,
        button=form.button,
        note=form.note,
        names=_names(form) if form.named else "",
        fields=_fields(form),
        models=_models(form),
        datalist=_LIST.format(Markup().join(map(_KNOWN.format, form.models))),
        limits=_rules(form, "limits"),
        budgets=_rules(form, "budgets"),
        disabled=Markup(" checked") if form.values.get("disabled") == "yes" else "",
    )


def _names(form: KeyForm) -> Markup:
    names = form.values.get("names", "")
    return _NAMES.format(
        name=_text(form, "name", say("Name"), more=Markup(' maxlength="128"')),
        names=names,
        open=Markup(" open") if names else "",
        invalid=_invalid(form, "names"),
        error=_error(form, "names"),
    )


def _fields(form: KeyForm) -> Markup:
    teams = {name: name or say("(none)") for name in form.teams}
    urgent = {name: say(label) for name, label in _URGENT.items()}
    chosen = form.values.get("max_priority", str(MOST_URGENT))
    return Markup().join(
        (
            _choice(form, "team", say("Team"), teams, form.values.get("team", "")),
            _text(form, "user", say("User"), say("the person or program it is for")),
            _text(form, "tags", say("Tags"), say("for reports: prod, cc-4711")),
            _text(form, "not_before", say("Valid from, UTC"), more=_moment(form, "not_before")),
            _text(form, "expires", say("Expires, UTC"), more=_moment(form, "expires")),
            _text(form, "allowed_networks", say("Networks"), "10.1.0.0/16"),
            _choice(form, "max_priority", say("Most urgent priority"), urgent, chosen),
        )
    )


def _moment(form: KeyForm, name: str) -> Markup:
    """A field of a date; one of text for what no date is, which browsers would not show."""
    return Markup() if name in form.errors else Markup(' type="datetime-local" step="1"')


def _models(form: KeyForm) -> Markup:
    given = [
        text
        for name, text in form.values.items()
        if (name == "models" or name.startswith("models.")) and text
    ]
    given = [] if given == ["*"] and not form.errors else given
    shown = [*given, *[""] * _SPARE_MODELS][:_MOST_MODELS]
    return Markup().join(
        _text(
            form,
            f"models.{place}",
            say("Model {number}", number=place + 1),
            more=Markup(' list="models-known"'),
            value=value,
        )
        for place, value in enumerate(shown)
    )


def _rules(form: KeyForm, kind: Kind) -> Markup:
    used = rows_in(form.values, kind)
    empty = used and not any(
        form.values.get(f"{kind}.{used - 1}.{one.name}")
        for one in FIELDS[kind]
        if one.input != "choice"
    )
    rows = used + (0 if empty else 1) + (1 if form.more == kind else 0)
    label, button = _ROWS[kind]
    shown = Markup().join(
        _rule(form, kind, place, say(label, number=place + 1))
        for place in range(min(rows, MOST_ROWS))
    )
    return shown + _MORE.format(name=MORE, kind=kind, label=say(button))


def _rule(form: KeyForm, kind: Kind, place: int, label: str) -> Markup:
    fields, shown = FIELDS[kind], _SHOWN[kind]
    hidden = fields[shown:]
    names = [f"{kind}.{place}.{one.name}" for one in hidden]
    wanted = any(name in form.errors for name in names)
    return _ROW.format(
        label=label,
        main=Markup().join(_rule_field(form, kind, place, one) for one in fields[:shown]),
        rest=Markup().join(_rule_field(form, kind, place, one) for one in hidden),
        open=Markup(" open") if wanted else "",
    )


def _rule_field(form: KeyForm, kind: Kind, place: int, field: RuleField) -> Markup:
    name = f"{kind}.{place}.{field.name}"
    if field.input == "choice":
        choices = {value: say(label) for value, label in field.choices.items()}
        return _choice(form, name, say(field.label), choices, form.values.get(name, ""))
    digits = Markup(' inputmode="decimal"') if field.input == "amount" else Markup()
    return _text(form, name, say(field.label), say(field.hint), more=digits)


def _text(
    form: KeyForm,
    name: str,
    label: str,
    hint: str = "",
    *,
    more: Markup | str = "",
    value: str | None = None,
) -> Markup:
    given = form.values.get(name, "") if value is None else value
    placeholder = _PLACEHOLDER.format(hint) if hint else Markup()
    return _LABEL.format(
        label=label,
        input=_INPUT.format(
            name=name, value=given, invalid=_invalid(form, name), more=placeholder + more
        ),
        error=_error(form, name),
    )


def _choice(
    form: KeyForm, name: str, label: str, choices: Mapping[str, str], chosen: str
) -> Markup:
    return _LABEL.format(
        label=label,
        input=_SELECT.format(
            name=name, invalid=_invalid(form, name), choices=options(choices, chosen)
        ),
        error=_error(form, name),
    )


def _invalid(form: KeyForm, name: str) -> Markup:
    return _INVALID.format(name) if name in form.errors else Markup()


def _error(form: KeyForm, name: str) -> Markup:
    return _ERROR.format(name, form.errors[name]) if name in form.errors else Markup()
