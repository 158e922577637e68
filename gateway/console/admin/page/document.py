"""The HTML document, and the frame of a view: the bar, the navigation, what is wrong, the title."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.page.navigation import (
    OVERVIEW,
    navigation,
    shown_title,
)
from strowger_gateway.gateway.console.admin.page.script_words import script_words
from strowger_gateway.gateway.console.admin.traffic.choice import TrafficChoice
from strowger_gateway.gateway.governance.sessions.principal import Principal
from strowger_gateway.gateway.parts.console import PageView
from strowger_gateway.gateway.platform.language import LANGUAGES, language, words_of
from strowger_gateway.gateway.storage.sql.traffic.windows import STEPS

say = words_of(__file__)

_DOCUMENT = Markup("""<!doctype html>
<html lang="{language}" data-theme="auto" data-words="{words}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/admin/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/admin/static/page.css">
<link rel="stylesheet" href="/admin/static/views.css">
<script src="/admin/static/page.js"></script>
<script src="/admin/static/chat.js" defer></script>
<script src="/admin/static/plots.js" defer></script>
<script src="/admin/static/playground.js" defer></script>
{head}
</head>
<body class="{kind}">
{body}
</body>
</html>
""")
_PAGE = say.template("""
<a class="skip" href="#main">[[Skip to the content]]</a>
<header class="bar">
<a class="brand" href="/admin">
<img src="/admin/static/icon.svg" alt="" width="22" height="22">Strowger</a>
{navigation}
{state}
<div class="tools">
<div class="who" title="[[Signed in as {who}]]"><span>{who}</span>
<span class="tag">{role}</span></div>
<button type="button" data-pause hidden>[[Pause]]</button>
<button type="button" data-theme-switch hidden>[[Theme]]</button>
{language}
<form method="post" action="/admin/sign-out"><button>[[Sign out]]</button></form>
</div>
</header>
<main id="main" tabindex="-1">
{band}
<div class="title"><h1>{title}</h1>{windows}</div>
{sections}
{columns}
</main>
<footer><p>{footer} <a href="/docs">API</a></p></footer>
""")
_WINDOWS = say.template('<nav class="choice" aria-label="[[Window]]">{}</nav>')
_SPLIT = Markup('<div class="split">{}</div>')
_STATE = Markup('<span id="state" data-live class="state {}">{}</span>')
_WINDOW = Markup('<a href="{address}"{current}>{window}</a>')
_RELOAD = Markup('<noscript><meta http-equiv="refresh" content="15"></noscript>')
_LANGUAGE = Markup("""<form method="post" action="/admin/language" class="language">
<input type="hidden" name="return_to" value="{here}">
<button name="language" value="{value}" lang="{value}">{name}</button></form>""")
_HERE: Final = Markup(' aria-current="page"')


class Frame(Struct, frozen=True, kw_only=True):
    """What is around all views.

    who:   is signed in. here: the path and query of the view, where a change of the language
           returns to. footer: the last line. views: of parts, in the navigation.
    state: of the gateway, from `state_mark`. band: what is wrong now; both "" on an error's page.
    """

    who: Principal
    here: str
    footer: str
    views: Sequence[PageView[Any]]
    state: Markup = Markup()
    band: Markup = Markup()


def state_mark(tone: str, word: str) -> Markup:
    """Render the gateway's state. tone: `good`, `warn` or `bad`. word: the label."""
    return _STATE.format(tone, word)


def document(title: str, body: Markup, *, kind: str, head: Markup | str = "") -> Markup:
    """Render the document. title: in the reader's language. kind: class of the body."""
    words = script_words()
    return _DOCUMENT.format(
        language="zh-CN" if language() == "zh" else language(),
        words=msgspec.json.encode(words).decode() if words else "{}",
        title=f"{title} · Strowger" if title else "Strowger",
        head=head,
        kind=kind,
        body=body,
    )


def language_switch(here: str) -> Markup:
    """Render a button for each other language. here: the path to return to."""
    return Markup().join(
        _LANGUAGE.format(here=here, value=value, name=name)
        for value, name in LANGUAGES.items()
        if value != language()
    )


def page(
    frame: Frame,
    sections: Sequence[Markup],
    columns: Sequence[Markup],
    *,
    choice: TrafficChoice,
) -> Markup:
    """Render the overview. columns: the last two sections, in columns if there is room."""
    windows = Markup().join(
        _WINDOW.format(
            address=choice.address(one), window=one, current=_HERE if one == choice.window else ""
        )
        for one in STEPS
    )
    body = _body(frame, OVERVIEW, sections, windows=_WINDOWS.format(windows), columns=columns)
    return document("", body, kind="page", head=_RELOAD)


def part_page(frame: Frame, part: str, sections: Sequence[Markup]) -> Markup:
    """Render a view. part: its title in English. Sections with `data-live` and an id refresh."""
    body = _body(frame, part, sections)
    return document(shown_title(part, frame.views), body, kind="page")


def _body(
    frame: Frame,
    part: str,
    sections: Sequence[Markup],
    *,
    windows: Markup | str = "",
    columns: Sequence[Markup] = (),
) -> Markup:
    return _PAGE.format(
        state=frame.state,
        who=frame.who.name,
        role=frame.who.role,
        language=language_switch(frame.here),
        navigation=navigation(part, frame.who, frame.views),
        band=frame.band,
        title=shown_title(part, frame.views),
        windows=windows,
        sections=Markup().join(sections),
        columns=_SPLIT.format(Markup().join(columns)) if columns else "",
        footer=frame.footer,
    )
