"""The view of vendors' keys on the page: which are in use, and which rest and for how long."""

from collections.abc import Mapping
from math import ceil
from typing import Final

from markupsafe import Markup

from strowger_gateway.gateway.governance.provider_keys.admin import (
    KeyState,
    ProviderKeyView,
    keys_in,
)
from strowger_gateway.gateway.governance.provider_keys.process_side import KeyPoolsSide
from strowger_gateway.gateway.parts.console import AdminCall, Nothing, PageView
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_TABLE: Final = Markup("""<section id="provider-keys" class="card table plain">
<header><h2>{title}</h2><p class="facts">{facts}</p></header>
<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></section>
""")
_NONE: Final = Markup('<section class="card"><p class="empty">{}</p></section>\n')
_HEAD: Final = Markup('<th scope="col">{}</th>')
_ROW: Final = Markup("""<tr><th scope="row">{provider} · {name}</th>
<td data-label="{labels[0]}"><span class="state {tone}">{state}</span></td>
<td data-label="{labels[1]}" class="n">{weight:g}</td>
<td data-label="{labels[2]}" class="n">{busy:,}</td>
<td data-label="{labels[3]}" class="n">{ok:,}</td>
<td data-label="{labels[4]}" class="n">{failed:,}</td>
<td data-label="{labels[5]}">{limits}</td></tr>
""")
_STATES: Final[Mapping[KeyState, tuple[str, str]]] = {
    "in use": ("good", sentence("in use")),
    "busy": ("warn", sentence("overloaded, others first for {seconds} s")),
    "rate-limited": ("warn", sentence("rate-limited for {seconds} s")),
    "refused": ("bad", sentence("refused by the vendor, next try in {seconds} s")),
}
"""Tone and text."""


async def render(call: AdminCall[Nothing]) -> Markup:
    """Return a table of the keys of all providers with several."""
    keys = keys_in(call.side(KeyPoolsSide))
    if not keys:
        return _NONE.format(say("No provider has several keys."))
    labels = [
        say("State"),
        say("Weight"),
        say("In flight"),
        say("Answered"),
        say("Failed"),
        say("Limits per minute"),
    ]
    return _TABLE.format(
        title=say("Keys of providers"),
        facts=say("pauses: of this gateway; counts: of one of its processes"),
        head=Markup().join(map(_HEAD.format, (say("Key"), *labels))),
        rows=Markup().join(_row(one, labels) for one in keys),
    )


VIEW: Final = PageView(
    name="provider-keys",
    title=sentence("Keys of providers"),
    say=say,
    group="models",
    role="viewer",
    takes=Nothing,
    render=render,
)


def _row(key: ProviderKeyView, labels: list[str]) -> Markup:
    tone, text = _STATES[key.state]
    answered = key.calls.get("ok", 0)
    limits = [
        say(text, count=f"{most:,}")
        for text, most in (
            (sentence("{count} requests"), key.requests_per_minute),
            (sentence("{count} tokens"), key.tokens_per_minute),
        )
        if most is not None
    ]
    return _ROW.format(
        provider=key.provider,
        name=key.name,
        labels=labels,
        tone=tone,
        state=say(text) if key.state == "in use" else say(text, seconds=ceil(key.rests_s)),
        weight=key.weight,
        busy=key.in_flight,
        ok=answered,
        failed=sum(key.calls.values()) - answered - key.calls.get("cancelled", 0),
        limits=", ".join(limits) or say("those of its vendor"),
    )
