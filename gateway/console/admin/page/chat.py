"""The chat box of the page: it calls the gateway's own API like any client."""

from collections.abc import Sequence

from markupsafe import Markup

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.gateway.routing.planning.sessions import HEADERS

say = words_of(__file__)

_SECTION = say.template("""
<section id="chat" aria-labelledby="h-chat">
<h2 id="h-chat">[[Talk to a model]]</h2>
<form class="card chat" id="talk" data-talk>
<div class="row">
<label>[[Model]] <select name="model">{models}</select></label>
<label>API <select name="api">{apis}</select></label>
{unit}{key}
</div>
<div class="talk" data-log aria-live="polite">
<p class="empty">[[Send a message: the reply shows the backend that answered.]]</p>
</div>
<noscript><p class="empty">[[Chat needs JavaScript; the rest of the page does not.]]</p></noscript>
<div class="row ask">
<label class="grow"><span class="hidden">[[Message]]</span>
<textarea name="message" rows="2" required placeholder="[[What is 17 + 25?]]"></textarea></label>
<button type="submit" class="primary">[[Send]]</button>
</div>
</form>
</section>
""")
_OPTION = Markup("<option>{}</option>")
_API = Markup('<option value="{}">{}</option>')
_APIS = {"chat": "Chat Completions", "messages": "Messages", "responses": "Responses"}
_UNIT = say.template("""<label class="grow">[[User]] <input name="user" autocomplete="off"
 data-headers="{headers}"
placeholder="[[user id (for experiment assignment)]]"></label>""")
_KEY = say.template("""<label class="grow">[[Client key]] <input name="key" type="password"
 autocomplete="off"
placeholder="[[forgotten when this page is closed]]"></label>""")


def chat_section(models: Sequence[str], *, keys: bool, experiments: Sequence[Experiment]) -> Markup:
    """Render the chat box. models: names to choose from. keys: clients need one.

    experiments: in force. If there are any, the box has a user field, which it sends as `user` and
    in each header that an experiment assigns by.
    """
    by = {one.assign_by for one in experiments}
    names = {name.partition(":")[2] for name in by if ":" in name}
    headers = " ".join(sorted(names | ({HEADERS[0]} if "session" in by else set())))
    return _SECTION.format(
        models=Markup().join(_OPTION.format(model) for model in models),
        apis=Markup().join(_API.format(name, text) for name, text in _APIS.items()),
        unit=_UNIT.format(headers=headers) if experiments else Markup(),
        key=_KEY.format() if keys else Markup(),
    )
