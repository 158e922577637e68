"""The form that chooses a key and its end user, above what they have used."""

from typing import Final

from markupsafe import Markup
from msgspec import Struct

from strowger_gateway.gateway.console.admin.governance.markup import problem
from strowger_gateway.gateway.governance.end_users.end_users import LONGEST
from strowger_gateway.gateway.governance.end_users.table import OTHERS
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_FORM: Final = say.template("""{problem}
<form class="row filters" method="get" action="/admin/view/{part}">
<label>[[Key]] <input name="key" value="{key}" maxlength="{longest}" autocomplete="off"
 placeholder="[[all keys]]"></label>
<label class="grow">[[End user]] <input name="end_user" value="{end_user}" maxlength="{longest}"
 autocomplete="off" placeholder="[[as clients send it]]"></label>
<button class="primary">[[Show]]</button>
</form>
{note}""")
_NOTE: Final = say.template("""<p class="quiet">[[What applies to {whose}. {more}]]</p>""")
_END_USER: Final = say.template(
    "[[{key} and its end user, whose account is <code>{account}</code>]]"
)
_SHARED: Final = sentence("That account is of all end users beyond end_users.max_per_key.")


class WhoseForm(Struct, frozen=True, kw_only=True):
    """part: of the page. key, end_user: as they were typed. refused: why they cannot be shown.

    account: of the end user, if there is one.
    """

    part: str
    key: str = ""
    end_user: str = ""
    account: str = ""
    refused: str = ""


def whose_form(form: WhoseForm) -> Markup:
    key = (
        say.markup("the key <b>{key}</b>", key=form.key) if form.key else say.markup("all requests")
    )
    whose = _END_USER.format(key=key, account=form.account) if form.account else key
    more = say(_SHARED) if form.account == OTHERS else ""
    shown = (form.key or form.account) and not form.refused
    return _FORM.format(
        problem=problem(form.refused) if form.refused else "",
        part=form.part,
        key=form.key,
        end_user=form.end_user,
        longest=LONGEST,
        note=_NOTE.format(whose=whose, more=more) if shown else "",
    )
