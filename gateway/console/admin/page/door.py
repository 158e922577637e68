"""The HTML of the sign-in page, and of the one after signing in with a provider."""

from urllib.parse import quote

from markupsafe import Markup

from strowger_gateway.gateway.console.admin.page.document import document, language_switch
from strowger_gateway.gateway.governance.sessions.principal import Principal
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

_SIGN_IN = Markup("""
<main>
<div class="card sign-in">
<img src="/admin/static/icon.svg" alt="" width="40" height="40">
<h1>Strowger</h1>
{problem}
{provider}
{key}
{language}
</div>
</main>
""")
_WITH_PROVIDER = say.template("""<a class="button primary" href="/admin/sign-in/provider{query}">
[[Sign in with {name}]]</a>""")
_OR = say.template('<p class="or quiet">[[or]]</p>')
_WITH_KEY = say.template("""<form method="post" action="/admin/sign-in">
<label>[[Operator key]]
<input name="key" type="password" required{focus} autocomplete="current-password"></label>
<input name="return_to" type="hidden" value="{return_to}">
<button{main}>[[Sign in]]</button>
<p class="quiet">[[The value of <code>auth.admin_key</code> in the configuration.]]</p>
</form>""")
_SIGNED_IN = say.template("""
<main>
<div class="card sign-in">
<img src="/admin/static/icon.svg" alt="" width="40" height="40">
<h1>Strowger</h1>
<p>[[Signed in as {who}.]]</p>
<a class="button primary" href="{return_to}">[[Continue]]</a>
</div>
</main>
""")
_CONTINUE = Markup('<meta http-equiv="refresh" content="0; url={}">')
"""Browsers send the session's cookie with a request of our own page, but not with a redirect on the
way from the provider's, which is another site."""

_PROBLEM = Markup('<p class="problem" role="alert">{}</p>')


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
        key=(_OR.format() + with_key if provider else with_key) if key else "",
        language=language_switch(f"/admin/sign-in{query}"),
    )
    return document(say("Sign in"), body, kind="door")


def signed_in_page(who: Principal, return_to: str) -> Markup:
    """Render what the provider sends the browser back to; it goes on to `return_to` by itself."""
    body = _SIGNED_IN.format(who=who.name, return_to=return_to)
    return document(say("Signed in"), body, kind="door", head=_CONTINUE.format(return_to))
