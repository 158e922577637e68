"""Several new keys with their secrets, shown once."""

from markupsafe import Markup

from strowger_gateway.gateway.governance.issued_keys.authority import KeyBatch
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

_SECTION = say.template("""
<section id="issued" aria-labelledby="h-issued">
<p class="back"><a href="/admin/view/keys">[[All keys]]</a></p>
<h2 id="h-issued">{title}</h2>
{failed}
<div class="card secret" role="status">
<label for="secrets">[[Their names and secrets, shown this once]]</label>
<textarea id="secrets" readonly rows="{rows}" spellcheck="false" autocomplete="off"
 data-secret>{lines}</textarea>
<div class="row"><button type="button" class="primary" data-copy="secrets" hidden>[[Copy]]</button>
<p class="quiet">[[Copy them now: the gateway keeps only digests.]]</p></div>
</div>
</section>
""")
_FAILED = Markup('<div class="verdict bad" role="alert"><p>{}</p><ul>{}</ul></div>')
_LINE = Markup("<li>{}: {}</li>")
_MOST_ROWS = 20


def issued_section(made: KeyBatch) -> Markup:
    failed = Markup()
    if made.failed:
        lines = Markup().join(_LINE.format(one.name, one.message) for one in made.failed)
        failed = _FAILED.format(say("Not all keys are issued:"), lines)
    return _SECTION.format(
        title=say("{count} keys are issued", count=len(made.issued)),
        failed=failed,
        rows=min(len(made.issued) + 1, _MOST_ROWS),
        lines="\n".join(f"{one.key.name} {one.secret}" for one in made.issued),
    )
