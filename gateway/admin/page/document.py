"""The HTML documents: the page around its sections, and the sign-in page."""

from collections.abc import Sequence

from markupsafe import Markup

from gateway.telemetry.time_series import STEPS, Window

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
<nav aria-label="Window">{windows}</nav>
<div class="tools">
<button type="button" data-pause hidden>Pause</button>
<button type="button" data-theme-switch hidden>Theme</button>
<form method="post" action="/admin/sign-out"><button>Sign out</button></form>
</div>
</header>
<main>
{sections}
<div class="split">{columns}</div>
</main>
<footer><p>{footer} <a href="/docs">API</a></p></footer>
""")
_STATE = Markup('<span id="state" data-live class="state {}">{}</span>')
_WINDOW = Markup('<a href="/admin?window={window}"{current}>{window}</a>')
_RELOAD = Markup('<noscript><meta http-equiv="refresh" content="15"></noscript>')
_SIGN_IN = Markup("""
<main>
<form class="card sign-in" method="post" action="/admin/sign-in">
<img src="/admin/static/icon.svg" alt="" width="40" height="40">
<h1>Strowger</h1>
<label>Operator key
<input name="key" type="password" required autofocus autocomplete="current-password"></label>
{problem}
<button class="primary">Sign in</button>
<p class="quiet">The value of <code>auth.admin_key</code> in the configuration.</p>
</form>
</main>
""")
_PROBLEM = Markup('<p class="problem" role="alert">{}</p>')


def state_mark(tone: str, word: str) -> Markup:
    """Render the gateway's state. tone: `good`, `warn` or `bad`. word: the label."""
    return _STATE.format(tone, word)


def page(
    state: Markup,
    sections: Sequence[Markup],
    columns: Sequence[Markup],
    *,
    window: Window,
    footer: str,
) -> Markup:
    """Render the page. columns: the last two sections, in columns if there is room."""
    windows = Markup().join(
        _WINDOW.format(window=one, current=Markup(' aria-current="page"') if one == window else "")
        for one in STEPS
    )
    body = _PAGE.format(
        state=state,
        windows=windows,
        sections=Markup().join(sections),
        columns=Markup().join(columns),
        footer=footer,
    )
    return _DOCUMENT.format(title="Strowger", head=_RELOAD, kind="page", body=body)


def sign_in_page(problem: str = "") -> Markup:
    body = _SIGN_IN.format(problem=_PROBLEM.format(problem) if problem else "")
    return _DOCUMENT.format(title="Sign in · Strowger", head="", kind="door", body=body)
