"""One key: its fields, where its last change is in effect, its new secret, and what can be done."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.governance.key_list import state_tone
from strowger_gateway.gateway.console.admin.governance.markup import (
    ago,
    note,
    options,
    problem,
    rule_fields,
)
from strowger_gateway.gateway.governance.issued_keys.rule_text import rule_text
from strowger_gateway.gateway.governance.issued_keys.view import KeyDetails, KeyView
from strowger_gateway.gateway.governance.sessions.principal import Principal

OVERLAPS: Final = {"0": "now", "3600": "in 1 hour", "86400": "in 24 hours", "604800": "in 7 days"}
"""When the old secret ends, by seconds."""

_SECTION = Markup("""
<section id="key" aria-labelledby="h-key">
<p class="back"><a href="/admin/view/keys">All keys</a></p>
<h2 id="h-key">{name} <span class="state {tone}">{state}</span></h2>
{problem}{note}{secret}
<dl class="card pairs about">{facts}</dl>
{gateways}
{actions}
</section>
""")
_FACT = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
_SECRET = Markup("""
<div class="card secret" role="status">
<label for="secret">The secret of {name}, shown this once</label>
<div class="row">
<input id="secret" class="grow" readonly value="{secret}" data-secret spellcheck="false"
 autocomplete="off">
<button type="button" class="primary" data-copy="secret" hidden>Copy</button>
</div>
<p class="quiet">Copy it now: the gateway keeps only a digest.{until}</p>
</div>
""")
_GATEWAYS = Markup("""
<div class="card table plain">
<header><h3>Last change in effect</h3><p class="facts">{facts}</p></header>
<table>
<thead><tr><th scope="col">Gateway</th><th scope="col">In effect</th><th scope="col">Processes</th>
<th scope="col">Reported</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</div>
""")
_GATEWAY = Markup("""<tr><th scope="row">{host} ({pid})</th>
<td data-label="In effect"><span class="state {tone}">{state}</span></td>
<td data-label="Processes">{processes}</td><td data-label="Reported">{seen}</td></tr>""")
_ACTIONS = Markup('<h3 class="acts">Change this key</h3><div class="acts">{}</div>')
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
_OVERLAP = Markup('<label>The old secret ends <select name="overlap_s">{}</select></label>')
_DANGER: Final = Markup(' class="danger"')
_READ_ONLY = Markup('<p class="quiet">{}</p>')


class KeyPart(Struct, frozen=True, kw_only=True):
    """What the page of one key shows. secret: a new one, "" for none.

    fields: of a form that was refused.
    """

    key: KeyView
    details: KeyDetails | None
    who: Principal
    now: datetime
    secret: str = ""
    refused: str = ""
    done: str = ""
    fields: Mapping[str, str] = {}


def key_section(part: KeyPart) -> Markup:
    key = part.key
    return _SECTION.format(
        name=key.name,
        tone=state_tone(key.state),
        state=key.state,
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
    yield "Source", "configuration file" if key.source == "file" else "issued"
    yield "Team", key.team or "none"
    if key.source == "issued":
        yield "User", key.user or "none"
    yield "Models", "all" if "*" in key.models else ", ".join(key.models)
    yield "Most urgent priority", str(key.max_priority)
    yield "Tags", ", ".join(key.tags) or "none"
    if key.source == "file":
        return
    for limit in key.limits:
        yield "Limit", rule_text(limit)
    for budget in key.budgets:
        yield "Budget", rule_text(budget)
    yield "Networks", ", ".join(key.allowed_networks) or "everywhere"
    if key.not_before is not None:
        yield "Valid from", ago(key.not_before, now)
    yield "Expires", ago(key.expires, now, "never")
    yield "Last used", ago(key.last_used, now, "never")
    yield "Issued", Markup("{} by {}").format(ago(key.created, now), key.created_by)
    if key.revoked is not None:
        yield "Revoked", ago(key.revoked, now)
    for one in key.secrets:
        until = (
            "" if one.valid_until is None else Markup(", ends {}").format(ago(one.valid_until, now))
        )
        yield "Secret", Markup("…{} of {}{}").format(one.last4, ago(one.created, now), until)


def _secret(part: KeyPart) -> Markup:
    old = next((one for one in part.key.secrets if one.valid_until is not None), None)
    until = (
        ""
        if old is None
        else Markup(" The old secret, …{}, ends {}.").format(
            old.last4, ago(old.valid_until, part.now)
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
            state="not responding" if not one.responding else "yes" if one.in_effect else "not yet",
            processes=one.processes,
            seen=ago(one.seen, part.now),
        )
        for one in details.gateways
    )
    facts = "everywhere" if details.in_effect else "not everywhere yet; reload to see"
    return _GATEWAYS.format(rows=rows, facts=facts)


def _actions(part: KeyPart) -> Markup:
    key = part.key
    if key.source == "file":
        return _READ_ONLY.format("Change this key in the configuration file.")
    if key.state == "revoked":
        return _READ_ONLY.format("This key was revoked, which is final.")
    if not may_act(part.who, key):
        return _READ_ONLY.format("Your role may not change this key.")
    return _ACTIONS.format(Markup().join(_acts(part)))


def _acts(part: KeyPart) -> Iterator[Markup]:
    key, sent = part.key, part.fields
    path = quote(key.name, safe="")
    limits, budgets = ("\n".join(map(rule_text, one)) for one in (key.limits, key.budgets))
    yield _ACT.format(
        act="rules",
        path=path,
        title="Change its limits and budgets",
        consequence="They apply to this key besides those of the configuration. One a line.",
        extra=rule_fields(sent.get("limits", limits), sent.get("budgets", budgets)),
        confirm="Apply them within two seconds.",
        style=Markup(' class="primary"'),
        button="Change",
    )
    yield _ACT.format(
        act="rotate",
        path=path,
        title="Rotate the secret",
        consequence="The key gets a new secret, which is shown once.",
        extra=_OVERLAP.format(options(OVERLAPS, "86400")),
        confirm="Clients get the new secret before the old one ends.",
        style=Markup(' class="primary"'),
        button="Rotate",
    )
    if key.disabled:
        yield _ACT.format(
            act="enable",
            path=path,
            title="Enable",
            consequence="Requests with this key are served again.",
            extra="",
            confirm="Enable this key.",
            style=Markup(' class="primary"'),
            button="Enable",
        )
    else:
        yield _ACT.format(
            act="disable",
            path=path,
            title="Disable",
            consequence="Requests with this key get 401 until it is enabled again.",
            extra="",
            confirm="Refuse its requests within two seconds.",
            style=_DANGER,
            button="Disable",
        )
    yield _ACT.format(
        act="revoke",
        path=path,
        title="Revoke for ever",
        consequence="Requests with this key get 401. It cannot be enabled again, and its name "
        "cannot be issued again.",
        extra="",
        confirm="Refuse its requests for ever, within two seconds.",
        style=_DANGER,
        button="Revoke",
    )
