"""The HTML documents: the page around its sections, and the sign-in page."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from strowger_gateway.gateway.governance.sessions.principal import Principal
from strowger_gateway.gateway.observability.telemetry.time_series import STEPS, Window
from strowger_gateway.gateway.parts.console import PageView

_DOCUMENT = Markup("""<!doctype html>
<html lang="en" data-theme="auto">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/admin/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/admin/static/page.css">
<script src="/admin/static/page.js"></script>
{head}
</head>
<body class="{kind}">
{body}
</body>
</html>
""")
_PAGE = Markup("""
<header class="bar">
<a class="brand" href="/admin">
<img src="/admin/static/icon.svg" alt="" width="22" height="22">Strowger</a>
{state}
{windows}
<div class="tools">
<div class="who" title="Signed in as {who}"><span>{who}</span> <span class="tag">{role}</span></div>
{pause}
<button type="button" data-theme-switch hidden>Theme</button>
<form method="post" action="/admin/sign-out"><button>Sign out</button></form>
</div>
<nav class="parts" aria-label="Parts of the page">{parts}</nav>
</header>
<main>
{sections}
{columns}
</main>
<footer><p>{footer} <a href="/docs">API</a></p></footer>
""")
_WINDOWS = Markup('<nav aria-label="Window">{}</nav>')
_PAUSE = Markup('<button type="button" data-pause hidden>Pause</button>')
_SPLIT = Markup('<div class="split">{}</div>')
_PART = Markup('<a href="{path}"{current}>{name}</a>')
_STATE = Markup('<span id="state" data-live class="state {}">{}</span>')
_WINDOW = Markup('<a href="/admin?window={window}"{current}>{window}</a>')
_RELOAD = Markup('<noscript><meta http-equiv="refresh" content="15"></noscript>')
_SIGN_IN = Markup("""
<main>
<div class="card sign-in">
<img src="/admin/static/icon.svg" alt="" width="40" height="40">
<h1>Strowger</h1>
{problem}
{provider}
{key}
</div>
</main>
""")
_WITH_PROVIDER = Markup("""<a class="button primary" href="/admin/sign-in/provider{query}">
Sign in with {name}</a>""")
_OR = Markup('<p class="or quiet">or</p>')
_WITH_KEY = Markup("""<form method="post" action="/admin/sign-in">
<label>Operator key
<input name="key" type="password" required{focus} autocomplete="current-password"></label>
<input name="return_to" type="hidden" value="{return_to}">
<button{main}>Sign in</button>
<p class="quiet">The value of <code>auth.admin_key</code> in the configuration.</p>
</form>""")
_SIGNED_IN = Markup("""
<main>
<div class="card sign-in">
<img src="/admin/static/icon.svg" alt="" width="40" height="40">
<h1>Strowger</h1>
<p>Signed in as {who}.</p>
<a class="button primary" href="{return_to}">Continue</a>
</div>
</main>
""")
_CONTINUE = Markup('<meta http-equiv="refresh" content="0; url={}">')
"""Browsers send the session's cookie with a request of our own page, but not with a redirect on the
way from the provider's, which is another site."""
PARTS: Final[Mapping[str, str]] = {
    "Traffic": "/admin",
    "Keys": "/admin/view/keys",
    "Spend": "/admin/view/spend",
    "Budgets": "/admin/view/budgets",
    "Limits": "/admin/view/limits",
    "Audit": "/admin/view/audit",
    "Sessions": "/admin/view/sessions",
}
"""The parts of the page, and their paths."""
_HERE: Final = Markup(' aria-current="page"')
_PROBLEM = Markup('<p class="problem" role="alert">{}</p>')


def state_mark(tone: str, word: str) -> Markup:
    """Render the gateway's state. tone: `good`, `warn` or `bad`. word: the label."""
    return _STATE.format(tone, word)


def page(
    state: Markup,
    sections: Sequence[Markup],
    columns: Sequence[Markup],
    *,
    who: Principal,
    window: Window,
    footer: str,
    views: Sequence[PageView[Any]],
) -> Markup:
    """Render the page. columns: the last two sections, in columns if there is room.

    views: of parts, in the navigation of those who may see them.
    """
    windows = Markup().join(
        _WINDOW.format(window=one, current=_HERE if one == window else "") for one in STEPS
    )
    body = _PAGE.format(
        state=state,
        who=who.name,
        role=who.role,
        windows=_WINDOWS.format(windows),
        pause=_PAUSE,
        parts=_parts("Traffic", who, views),
        sections=Markup().join(sections),
        columns=_SPLIT.format(Markup().join(columns)),
        footer=footer,
    )
    return _DOCUMENT.format(title="Strowger", head=_RELOAD, kind="page", body=body)


def part_page(
    part: str,
    sections: Sequence[Markup],
    *,
    who: Principal,
    footer: str,
    views: Sequence[PageView[Any]],
) -> Markup:
    """Render a part of the page that does not refresh by itself.

    part: one of PARTS, or the title of one of the views.
    """
    body = _PAGE.format(
        state="",
        who=who.name,
        role=who.role,
        windows="",
        pause="",
        parts=_parts(part, who, views),
        sections=Markup().join(sections),
        columns="",
        footer=footer,
    )
    return _DOCUMENT.format(title=f"{part} · Strowger", head="", kind="page", body=body)


def _parts(current: str, who: Principal, views: Sequence[PageView[Any]]) -> Markup:
    more = {view.title: f"/admin/view/{view.name}" for view in views if who.may(view.role)}
    return Markup().join(
        _PART.format(path=path, name=name, current=_HERE if name == current else "")
        for name, path in {**PARTS, **more}.items()
    )


def sign_in_page(problem: str, *, key: bool, provider: str, return_to: str) -> Markup:
    """key: the operator's key is a way in. provider: name of the identity provider, "" for none."""
    query = "" if return_to == "/admin" else f"?return_to={quote(return_to, safe='')}"
    with_key = _WITH_KEY.format(
        return_to=return_to,
        focus=Markup() if provider else Markup(" autofocus"),
        main=Markup() if provider else Markup(' class="primary"'),
    )
    body = _SIGN_IN.format(
        problem=_PROBLEM.format(problem) if problem else "",
        provider=_WITH_PROVIDER.format(query=query, name=provider) if provider else "",
        key=(_OR + with_key if provider else with_key) if key else "",
    )
    return _DOCUMENT.format(title="Sign in · Strowger", head="", kind="door", body=body)


def signed_in_page(who: Principal, return_to: str) -> Markup:
    """Render what the provider sends the browser back to; it goes on to `return_to` by itself."""
    body = _SIGNED_IN.format(who=who.name, return_to=return_to)
    head = _CONTINUE.format(return_to)
    return _DOCUMENT.format(title="Signed in · Strowger", head=head, kind="door", body=body)
