"""One key: its fields, where its last change is in effect, its new secret, and what can be done."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.governance.key_forms.disclosures import changing
from strowger_gateway.gateway.console.admin.governance.key_list import state_tone, state_word
from strowger_gateway.gateway.console.admin.governance.markup import (
    ago,
    note,
    options,
    problem,
)
from strowger_gateway.gateway.governance.issued_keys.rule_text import rule_text
from strowger_gateway.gateway.governance.issued_keys.view import KeyDetails, KeyView
from strowger_gateway.gateway.governance.sessions.principal import Principal
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

OVERLAPS: Final = {
    "0": sentence("now"),
    "3600": sentence("in 1 hour"),
    "86400": sentence("in 24 hours"),
    "604800": sentence("in 7 days"),
}
"""When the old secret ends, by seconds."""

_SECTION = say.template("""
<section id="key" aria-labelledby="h-key">
<p class="back"><a href="/admin/view/keys">[[All keys]]</a></p>
<h2 id="h-key">{name} <span class="state {tone}">{state}</span></h2>
{problem}{note}{secret}
<dl class="card pairs about">{facts}</dl>
{gateways}
{actions}
</section>
""")
_FACT = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
_AUDIT = say.template(
    """<a href="/admin/view/audit?action=key&amp;target={}">[[who changed what]]</a>"""
)
_SECRET = say.template("""
<div class="card secret" role="status">
<label for="secret">[[The secret of {name}, shown this once]]</label>
<div class="row">
<input id="secret" class="grow" readonly value="{secret}" data-secret spellcheck="false"
 autocomplete="off">
<button type="button" class="primary" data-copy="secret" hidden>[[Copy]]</button>
</div>
<p class="quiet">[[Copy it now: the gateway keeps only a digest.{until}]]</p>
</div>
""")
_GATEWAYS = say.template("""
<div class="card table plain">
<header><h3>[[Last change in effect]]</h3><p class="facts">{facts}</p></header>
<table>
<thead><tr><th scope="col">[[Gateway]]</th><th scope="col">[[In effect]]</th><th
 scope="col">[[Processes]]</th>
<th scope="col">[[Reported]]</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</div>
""")
_GATEWAY = say.template("""<tr><th scope="row">{host} ({pid})</th>
<td data-label="[[In effect]]"><span class="state {tone}">{state}</span></td>
<td data-label="[[Processes]]">{processes}</td><td data-label="[[Reported]]">{seen}</td></tr>""")
_ACTIONS = say.template("""<h3 class="acts">[[Change this key]]</h3><div class="acts">{}</div>""")
_ACT = Markup("""
<details class="card act" id="act-{act}">
<summary>{title}</summary>
<form method="post" action="/admin/view/keys/{path}/{act}">
<p>{consequence}</p>
{extra}
<label class="check"><input type="checkbox" name="confirm" value="yes" required> {confirm}</label>
<button{style}>{button}</button>
</form>
</details>
""")
_OVERLAP = say.template(
    """<label>[[The old secret ends]] <select name="overlap_s">{}</select></label>"""
)
_DANGER: Final = Markup(' class="danger"')
_READ_ONLY = Markup('<p class="quiet">{}</p>')


class KeyPart(Struct, frozen=True, kw_only=True):
    """What the page of one key shows. secret: a new one, "" for none.

    fields, errors: of a form that was refused. more: it asks for another row of this kind.
    teams, models: of the configuration.
    """

    key: KeyView
    details: KeyDetails | None
    who: Principal
    now: datetime
    secret: str = ""
    refused: str = ""
    done: str = ""
    fields: Mapping[str, str] = {}
    errors: Mapping[str, str] = {}
    more: str = ""
    teams: Sequence[str] = ()
    models: Sequence[str] = ()


def key_section(part: KeyPart) -> Markup:
    key = part.key
    return _SECTION.format(
        name=key.name,
        tone=state_tone(key.state),
        state=state_word(key.state),
        problem=problem(part.refused),
        note=note(part.done),
        secret=_secret(part) if part.secret else "",
        facts=Markup().join(_FACT.format(*fact) for fact in _facts(part)),
        gateways=_gateways(part) if part.details is not None else "",
        actions=_actions(part),
    )


def may_act(who: Principal, key: KeyView) -> bool:
    """Whether this person may change this key: by role, and by the key's team."""
    return key.source == "issued" and key.state != "revoked" and who.manages(key.team)


def _facts(part: KeyPart) -> Iterator[tuple[str, str | Markup]]:
    key, now = part.key, part.now
    yield say("Source"), say("configuration file") if key.source == "file" else say("issued")
    yield say("Team"), key.team or say("none")
    if key.source == "issued":
        yield say("User"), key.user or say("none")
    yield say("Models"), say("all") if "*" in key.models else ", ".join(key.models)
    yield say("Most urgent priority"), str(key.max_priority)
    yield say("Tags"), ", ".join(key.tags) or say("none")
    if key.source == "file":
        yield say("Last used"), ago(key.last_used, now, say("not in the last month"))
        return
    for limit in key.limits:
        yield say("Limit"), rule_text(limit)
    for budget in key.budgets:
        yield say("Budget"), rule_text(budget)
    yield say("Networks"), ", ".join(key.allowed_networks) or say("everywhere")
    if key.not_before is not None:
        yield say("Valid from"), ago(key.not_before, now)
    yield say("Expires"), ago(key.expires, now, say("never"))
    yield say("Last used"), ago(key.last_used, now, say("never"))
    yield (
        say("Issued"),
        say.markup("{when} by {who}", when=ago(key.created, now), who=key.created_by),
    )
    if key.revoked is not None:
        yield say("Revoked"), ago(key.revoked, now)
    if key.source == "issued":
        yield say("Changes"), _AUDIT.format(quote(key.name, safe=""))
    for one in key.secrets:
        until = (
            ""
            if one.valid_until is None
            else say.markup(", ends {when}", when=ago(one.valid_until, now))
        )
        yield (
            say("Secret"),
            say.markup(
                "…{last} of {when}{until}",
                last=one.last4,
                when=ago(one.created, now),
                until=until,
            ),
        )


def _secret(part: KeyPart) -> Markup:
    old = next((one for one in part.key.secrets if one.valid_until is not None), None)
    until = (
        ""
        if old is None
        else say.markup(
            " The old secret, …{last}, ends {when}.",
            last=old.last4,
            when=ago(old.valid_until, part.now),
        )
    )
    return _SECRET.format(name=part.key.name, secret=part.secret, until=until)


def _gateways(part: KeyPart) -> Markup:
    details = part.details
    if details is None or not details.gateways:
        return Markup()
    rows = Markup().join(
        _GATEWAY.format(
            host=one.host,
            pid=one.pid,
            tone="" if not one.responding else "good" if one.in_effect else "warn",
            state=say("not responding")
            if not one.responding
            else say("yes")
            if one.in_effect
            else say("not yet"),
            processes=one.processes,
            seen=ago(one.seen, part.now),
        )
        for one in details.gateways
    )
    facts = (
        say("in effect everywhere")
        if details.in_effect
        else say("not everywhere yet; reload to see")
    )
    return _GATEWAYS.format(rows=rows, facts=facts)


def _actions(part: KeyPart) -> Markup:
    key = part.key
    if key.source == "file":
        return _READ_ONLY.format(say("Change this key in the configuration file."))
    if key.state == "revoked":
        return _READ_ONLY.format(say("This key was revoked, which is final."))
    if not may_act(part.who, key):
        return _READ_ONLY.format(say("Your role may not change this key."))
    return _ACTIONS.format(Markup().join(_acts(part)))


def _acts(part: KeyPart) -> Iterator[Markup]:
    key = part.key
    path = quote(key.name, safe="")
    yield changing(part.who, key, part.teams, part.models, part.fields, part.errors, more=part.more)
    yield _ACT.format(
        act="rotate",
        path=path,
        title=say("Rotate the secret"),
        consequence=say("The key gets a new secret, which is shown once."),
        extra=_OVERLAP.format(options(_in_words(OVERLAPS), "86400")),
        confirm=say("Clients get the new secret before the old one ends."),
        style=Markup(' class="primary"'),
        button=say("Rotate"),
    )
    if key.disabled:
        yield _ACT.format(
            act="enable",
            path=path,
            title=say("Enable"),
            consequence=say("Requests with this key are served again."),
            extra="",
            confirm=say("Enable this key."),
            style=Markup(' class="primary"'),
            button=say("Enable"),
        )
    else:
        yield _ACT.format(
            act="disable",
            path=path,
            title=say("Disable"),
            consequence=say("Requests with this key get 401 until it is enabled again."),
            extra="",
            confirm=say("Refuse its requests within two seconds."),
            style=_DANGER,
            button=say("Disable"),
        )
    yield _ACT.format(
        act="revoke",
        path=path,
        title=say("Revoke for ever"),
        consequence=say(
            "Requests with this key get 401. It cannot be enabled again, and its name cannot be "
            "issued again."
        ),
        extra="",
        confirm=say("Refuse its requests for ever, within two seconds."),
        style=_DANGER,
        button=say("Revoke"),
    )


def _in_words(choices: Mapping[str, str]) -> Mapping[str, str]:
    return {value: say(label) for value, label in choices.items()}
