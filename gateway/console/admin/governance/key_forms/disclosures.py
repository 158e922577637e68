"""The forms of keys in the page: each opens on demand, and stays open while it has an error."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.governance.key_forms.form import KeyForm, key_form
from strowger_gateway.gateway.console.admin.governance.key_forms.key_fields import fields_of
from strowger_gateway.gateway.console.admin.governance.markup import problem
from strowger_gateway.gateway.governance.issued_keys.view import KeyView
from strowger_gateway.gateway.governance.sessions.principal import Principal
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

_FORM = Markup("""
<details class="card make" id="act-{id}"{open}><summary>{title}</summary>{problem}{form}</details>
""")
_NOTHING: Mapping[str, str] = {}


def issuing(
    who: Principal,
    teams: Sequence[str],
    models: Sequence[str],
    values: Mapping[str, str] = _NOTHING,
    errors: Mapping[str, str] = _NOTHING,
    *,
    more: str = "",
    refused: str = "",
) -> Markup:
    """The form for who may issue a key: an operator, for its own teams.

    values, errors, more: as in KeyForm. refused: why nothing was issued.
    """
    own = _teams(who, teams)
    if not own:
        return Markup()
    form = KeyForm(
        action="/admin/view/keys",
        button=say("Issue the key"),
        note=say("Its secret is shown once, on the next page."),
        teams=own,
        models=models,
        named=True,
        values=values,
        errors=errors,
        more=more,
    )
    return _FORM.format(
        id="issue",
        open=Markup(" open") if refused or more else "",
        title=say("Issue a key"),
        problem=problem(refused),
        form=key_form(form),
    )


def changing(
    who: Principal,
    key: KeyView,
    teams: Sequence[str],
    models: Sequence[str],
    values: Mapping[str, str] = _NOTHING,
    errors: Mapping[str, str] = _NOTHING,
    *,
    more: str = "",
) -> Markup:
    """The form that changes a key, filled with what it has or with what was sent."""
    own = _teams(who, teams)
    form = KeyForm(
        action=f"/admin/view/keys/{quote(key.name, safe='')}/change",
        button=say("Change"),
        note=say("In effect within two seconds."),
        teams=own if key.team in own else [*own, key.team],
        models=models,
        values=values or fields_of(key),
        errors=errors,
        more=more,
    )
    return _FORM.format(
        id="change",
        open=Markup(" open") if errors or more else "",
        title=say("Change its fields, limits and budgets"),
        problem="",
        form=key_form(form),
    )


def _teams(who: Principal, teams: Sequence[str]) -> list[str]:
    """Return those whose keys a person may manage; "" is for keys without a team."""
    return [name for name in ("", *teams) if who.manages(name)]
