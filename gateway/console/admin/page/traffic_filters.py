"""The form that chooses which traffic the page shows, by model, backend, team and key."""

from collections.abc import Iterable
from typing import get_args

from markupsafe import Markup

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.traffic.choice import Quantile, TrafficChoice
from strowger_gateway.gateway.console.admin.traffic.reader import TrafficReader
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

LONGEST = 256
"""Characters of a name in a filter."""

_FORM = Markup("""
<form class="row filters" id="traffic-filters" method="get" action="/admin"
 aria-label="{title}">
<input type="hidden" name="window" value="{window}">
{fields}
<button>{show}</button>
{reset}
</form>
""")
_SELECT = Markup('<label>{label} <select name="{name}">{options}</select></label>')
_OPTION = Markup('<option value="{value}"{selected}>{text}</option>')
_INPUT = Markup(
    '<label>{label} <input name="{name}" value="{value}" maxlength="{longest}" list="{name}-names"'
    ' autocomplete="off" placeholder="{all}"><datalist id="{name}-names">{options}</datalist>'
    "</label>"
)
_RESET = Markup('<a href="{}">{}</a>')


async def filters_section(gateway: Gateway, choice: TrafficChoice, reader: TrafficReader) -> Markup:
    """Return the form. It stays as it is while the page refreshes."""
    names, runtime = await reader.names(), gateway.runtime
    models = {*(model.name for model in runtime.config.models), *names.models}
    backends = {*(backend.name for backend in runtime.backends.values()), *names.backends}
    teams = {*(team.name for team in runtime.config.teams), *names.teams}
    fields = [
        _select(say("Model"), "model", sorted(models), choice.model),
        _select(say("Backend"), "backend", sorted(backends), choice.backend),
    ]
    if gateway.store is not None:
        if teams:
            fields.append(_select(say("Team"), "team", sorted(teams), choice.team))
        if names.keys or choice.key:
            fields.append(_input(say("Key"), "key", names.keys, choice.key))
    fields.append(_quantile(choice.quantile))
    plain = TrafficChoice(window=choice.window)
    reset = _RESET.format(plain.address(choice.window), say("Show everything"))
    return _FORM.format(
        title=say("Which traffic"),
        window=choice.window,
        fields=Markup().join(fields),
        show=say("Show"),
        reset=reset if choice.filters else "",
    )


def _select(label: str, name: str, values: Iterable[str], chosen: str) -> Markup:
    known = list(values)
    if chosen and chosen not in known:
        known.append(chosen)
    options = [_option("", say("all"), not chosen)]
    options += [_option(one, one, one == chosen) for one in known]
    return _SELECT.format(label=label, name=name, options=Markup().join(options))


def _quantile(chosen: Quantile) -> Markup:
    options = [_option(one, one, one == chosen) for one in get_args(Quantile)]
    return _SELECT.format(label=say("Durations"), name="quantile", options=Markup().join(options))


def _input(label: str, name: str, values: Iterable[str], chosen: str) -> Markup:
    return _INPUT.format(
        label=label,
        name=name,
        value=chosen,
        longest=LONGEST,
        all=say("all"),
        options=Markup().join(Markup('<option value="{}">').format(one) for one in values),
    )


def _option(value: str, text: str, selected: bool) -> Markup:
    return _OPTION.format(value=value, text=text, selected=Markup(" selected") if selected else "")
