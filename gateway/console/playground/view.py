"""The view of the playground. playground.js sends what it has, with the key that is typed in."""

from typing import Final

from markupsafe import Markup

from strowger_gateway.gateway.parts.console import AdminCall, Nothing, PageView
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

EFFORTS: Final = ("minimal", "low", "medium", "high")

_VIEW = say.template("""
<section aria-label="[[Playground]]">
<noscript><p class="verdict warn">[[The playground needs JavaScript; the other views do
 not.]]</p></noscript>
<form class="play" data-playground>
<div class="card about fields">
<label>[[Model]] <input name="first" list="play-models" required value="{first}"
 autocomplete="off" spellcheck="false"></label>
<label>[[Second model]] <input name="second" list="play-models" autocomplete="off"
 spellcheck="false" placeholder="[[none]]"></label>
{key}
<datalist id="play-models">{models}</datalist>
</div>
<div class="card about">
<label class="wide">[[System prompt]]
<textarea name="system" rows="2"></textarea></label>
</div>
<details class="card make"><summary>[[Parameters]]</summary>
<div class="fields pad">
<label>temperature <input name="temperature" type="number" min="0" max="2" step="any"></label>
<label>top_p <input name="top_p" type="number" min="0" max="1" step="any"></label>
<label>max_completion_tokens <input name="max_completion_tokens" type="number" min="1"
 step="1"></label>
<label>seed <input name="seed" type="number" step="1"></label>
<label>reasoning_effort <select name="reasoning_effort"><option value="">{unset}</option>
{efforts}</select></label>
<label>stop <input name="stop" autocomplete="off"
 placeholder="[[several: separated by commas]]"></label>
</div>
<div class="fields pad">
<label>response_format <textarea name="response_format" rows="3" spellcheck="false"
 placeholder='{{"type": "json_object"}}'></textarea></label>
<label>tools <textarea name="tools" rows="3" spellcheck="false"
 placeholder='[{{"type": "function", "function": {{"name": "…"}}}}]'></textarea></label>
</div>
<p class="pad"><label>[[Picture]] <input name="picture" type="file" accept="image/*"></label></p>
</details>
<div class="panes">
<div class="card pane" data-pane="first" aria-live="polite"><p class="empty">[[Send a message:
 each answer shows its backend, times, tokens and cost.]]</p></div>
<div class="card pane" data-pane="second" aria-live="polite" hidden></div>
</div>
<div class="row ask card about">
<label class="grow"><span class="hidden">[[Message]]</span>
<textarea name="message" rows="3" required placeholder="[[What is 17 + 25?]]"></textarea></label>
<button type="submit" class="primary">[[Send]]</button>
<button type="button" data-clear>[[New conversation]]</button>
<button type="button" data-snippet="curl">[[Copy as curl]]</button>
<button type="button" data-snippet="python">[[Copy as Python]]</button>
</div>
<p class="problem" role="alert" data-problem hidden></p>
<p class="quiet">{by}</p>
</form>
</section>
""")
_KEY = say.template("""<label>[[Client key]] <input name="key" type="password" autocomplete="off"
 required placeholder="[[forgotten when this page is closed]]"></label>""")
_OPTION = Markup('<option value="{0}">')
_EFFORT = Markup("<option>{}</option>")


async def render(call: AdminCall[Nothing]) -> Markup:
    """Return the form."""
    config = call.config
    named = [name for one in config.models for name in (one.name, *one.aliases)]
    names = [name for name in named if "*" not in name]
    keys = config.auth.mode != "none"
    return _VIEW.format(
        first=names[0] if names else "",
        models=Markup().join(map(_OPTION.format, names)),
        key=_KEY.format() if keys else "",
        efforts=Markup().join(map(_EFFORT.format, EFFORTS)),
        unset=say("not sent"),
        by=say(
            "Requests are those of the client key above: its limits, budgets and models apply, and "
            "its records and payloads are kept as usual."
        )
        if keys
        else say("Clients need no key here; requests are recorded as usual."),
    )


VIEW: Final = PageView(
    name="playground",
    title=sentence("Playground"),
    say=say,
    group="overview",
    role="viewer",
    takes=Nothing,
    render=render,
)
