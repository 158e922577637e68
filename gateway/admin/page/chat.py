"""The box to talk to a model: it calls the gateway's own API, as any client would."""

from collections.abc import Sequence

from markupsafe import Markup

from gateway.config.schema_experiment import Experiment

_SECTION = Markup("""
<section id="chat" aria-labelledby="h-chat">
<h2 id="h-chat">Talk to a model</h2>
<form class="card chat" id="talk" data-talk>
<div class="row">
<label>Model <select name="model">{models}</select></label>
{unit}{key}
</div>
<div class="talk" data-log aria-live="polite">
<p class="empty">Ask something: the answer names who gave it.</p>
</div>
<noscript><p class="empty">The box needs JavaScript; everything else here does not.</p></noscript>
<div class="row ask">
<label class="grow"><span class="hidden">Message</span>
<textarea name="message" rows="2" required placeholder="What is 17 + 25?"></textarea></label>
<button type="submit" class="primary">Send</button>
</div>
</form>
</section>
""")
_OPTION = Markup("<option>{}</option>")
_UNIT = Markup(
    '<label class="grow">User <input name="user" autocomplete="off" data-headers="{headers}" '
    'placeholder="whom experiments assign"></label>'
)
_KEY = Markup(
    '<label class="grow">A client&rsquo;s key <input name="key" type="password" '
    'autocomplete="off" placeholder="kept until this page is closed"></label>'
)


def chat_section(models: Sequence[str], *, keys: bool, experiments: Sequence[Experiment]) -> Markup:
    """models: that can be asked for by name. keys: clients need one.

    experiments: in force; where there are any, the box asks on behalf of whom it is told, in
    `user` and in each header that one assigns by.
    """
    by = (one.assign_by for one in experiments)
    headers = " ".join(sorted({name.partition(":")[2] for name in by if ":" in name}))
    return _SECTION.format(
        models=Markup().join(_OPTION.format(model) for model in models),
        unit=_UNIT.format(headers=headers) if experiments else Markup(),
        key=_KEY if keys else Markup(),
    )
