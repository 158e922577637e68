"""The view of replays on the page: runs, a report, and a pair to vote on without names."""

from collections.abc import Sequence

from markupsafe import Markup

from strowger_gateway.gateway.experiments.replay.process_side import BlindPair, RevealedPair
from strowger_gateway.gateway.experiments.replay.report import ReplayedArm, ReplayReport
from strowger_gateway.gateway.experiments.replay.summary import ListedRun, notes
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

_NONE = say.template("""<section class="card"><p class="empty">[[There are no replays.
<code>strowger experiments
replay</code> sends logged prompts to two arms and compares the answers.]]</p></section>""")
_RUNS = say.template("""<section class="card table"><header><h2>[[Replays]]</h2></header>
<table><thead><tr><th>[[Run]]</th><th>[[Control]]</th><th>[[Treatment]]</th><th>[[Pairs]]</th><th>[[Begun]]</th>
<th>[[State]]</th></tr></thead><tbody>{}</tbody></table></section>""")
_RUN = say.template("""<tr><td data-label="[[Run]]"><a
 href="/admin/view/replay?run={name}">{run}</a></td>
<td data-label="[[Control]]">{control}</td><td data-label="[[Treatment]]">{treatment}</td>
<td data-label="[[Pairs]]" class="n">{pairs}</td><td data-label="[[Begun]]">{created}</td>
<td data-label="[[State]]">{state}</td></tr>""")
_REPORT = say.template("""<section class="card table"><header><h2>{run}</h2>
<span class="facts">[[{treatment} against {control}{judge}]]</span></header>
<p class="verdict{tone}">{sentence}</p>
<p class="conditions">[[{counted} of {pairs} pairs count, of {units} units: {wins} won, {ties} tied,
{losses} lost. Spent: ${usd}.]]</p>{notes}
<details class="act"{open}><summary>[[The arms, with figures that may reveal them]]</summary>
<table><thead><tr><th>[[Arm]]</th><th>[[Model]]</th><th>[[Answers]]</th><th>[[Failed]]</th><th>[[Passed]]</th>
<th>[[Seconds]]</th><th>[[Tokens]]</th><th>USD</th></tr></thead><tbody>{arms}</tbody></table></details></section>""")
_ARM = say.template("""<tr><td data-label="[[Arm]]">{name}</td><td
 data-label="[[Model]]">{model}</td>
<td data-label="[[Answers]]" class="n">{answers}</td><td data-label="[[Failed]]"
 class="n">{failed}</td>
<td data-label="[[Passed]]" class="n">{passed}</td><td data-label="[[Seconds]]"
 class="n">{seconds}</td>
<td data-label="[[Tokens]]" class="n">{tokens}</td><td data-label="USD"
 class="n">{usd}</td></tr>""")
_NOTES = Markup('<ul class="conditions">{}</ul>')
_NOTE = Markup("<li>{}</li>")
_PAIR = say.template("""<section class="card table" id="pair"><header><h2>[[Which answer is
better?]]</h2>
<span class="facts">[[Pair {place} of {run}; the sides are in random order]]</span></header>
{prompt}<div class="plots">{left}{right}</div>
<div class="act"><form method="post" action="/admin/view/replay/vote">
<input type="hidden" name="run" value="{run}"><input type="hidden" name="place" value="{place}">
<p class="tools"><button name="side" value="left">[[Left]]</button>
<button name="side" value="tie">[[Tie]]</button>
<button name="side" value="right">[[Right]]</button>
<a class="button" href="/admin/view/replay?run={run}&amp;after={place}">[[Skip]]</a></p>
</form></div></section>""")
_ALL = say.template("""<section class="card"><p class="empty">[[No further pair of {} needs your
vote.]]</p></section>""")
_VOTED = say.template("""<section class="card table" id="voted"><header><h2>[[Your last vote]]</h2>
<span class="facts">[[Pair {place} of {run}]]</span></header>
<p class="verdict">[[You chose {vote}. {verdict}]]</p>{reasons}
<details class="act"><summary>[[The pair]]</summary>
{prompt}<div class="plots">{left}{right}</div></details>
</section>""")
_TEXT = Markup("""<details class="turn"{open}><summary>{title}</summary><p>{text}</p></details>""")
_SIDE = Markup(
    '<article class="card plot turn"><h3>{title}</h3><p tabindex="0">{text}</p></article>'
)
_SHORT = 2_000


def page(
    runs: Sequence[ListedRun],
    report: ReplayReport | None,
    voted: RevealedPair | None,
    pair: BlindPair | None,
) -> Markup:
    """Build the view. voted: of the person's last vote in this run. pair: the next one."""
    if report is None:
        return _NONE.format()
    parts = [_report(report, blind=pair is not None)]
    if voted is not None:
        parts.append(_voted(voted))
    parts.append(_ALL.format(report.run) if pair is None else _pair(pair))
    parts.append(_RUNS.format(Markup().join(map(_run, runs))))
    return Markup().join(parts)


def _run(one: ListedRun) -> Markup:
    return _RUN.format(
        name=Markup.escape(one.run),
        run=one.run,
        control=one.control,
        treatment=one.treatment,
        pairs=f"{one.pairs:,}",
        created=one.created,
        state=one.state,
    )


def _report(found: ReplayReport, *, blind: bool) -> Markup:
    """blind: a pair to vote on is shown, too. Means of lengths and times could reveal its sides."""
    whole = found.win_rate
    said = Markup().join(_NOTE.format(f"{note[:1].upper()}{note[1:]}.") for note in notes(found))
    tones = {"better": " good", "worse": " bad"}
    return _REPORT.format(
        run=found.run,
        treatment=found.treatment,
        control=found.control,
        judge=say(", judged by {judge}", judge=found.judge) if found.judge else "",
        tone=tones.get(whole.finding, ""),
        sentence=f"{whole.sentence[:1].upper()}{whole.sentence[1:]}.",
        counted=f"{found.counted:,}",
        pairs=f"{found.pairs:,}",
        units=f"{whole.units:,}",
        wins=f"{whole.wins:,}",
        ties=f"{whole.ties:,}",
        losses=f"{whole.losses:,}",
        usd=f"{found.usd:.4f}",
        notes=_NOTES.format(said) if said else "",
        arms=Markup().join(map(_arm, found.arms)),
        open=Markup("") if blind else Markup(" open"),
    )


def _arm(one: ReplayedArm) -> Markup:
    return _ARM.format(
        name=one.name,
        model=one.model,
        answers=f"{one.answers:,}",
        failed=f"{one.failed:,}",
        passed=say("{part:,} of {whole:,}", part=one.passed, whole=one.checked)
        if one.checked
        else "–",
        seconds="–" if one.ms is None else f"{one.ms / 1000:.2f}",
        tokens="–" if one.tokens is None else f"{one.tokens:,.0f}",
        usd=f"{one.usd:.4f}",
    )


def _pair(pair: BlindPair) -> Markup:
    return _PAIR.format(
        run=pair.run,
        place=pair.place,
        prompt=_prompt(pair.prompt, opened=True),
        left=_SIDE.format(title=say("Left"), text=pair.left),
        right=_SIDE.format(title=say("Right"), text=pair.right),
    )


def _voted(pair: RevealedPair) -> Markup:
    reasons = Markup().join(map(_NOTE.format, pair.reasons))
    verdict = _name(pair, pair.verdict)
    decided = (
        say("The judge chose {arm}.", arm=verdict)
        if pair.how == "judge"
        else say("The comparison came to {arm}.", arm=verdict)
    )
    return _VOTED.format(
        run=pair.run,
        place=pair.place,
        vote=_name(pair, pair.vote),
        verdict=decided,
        reasons=_NOTES.format(reasons) if reasons else "",
        prompt=_prompt(pair.prompt, opened=False),
        left=_SIDE.format(title=pair.left_arm, text=pair.left),
        right=_SIDE.format(title=pair.right_arm, text=pair.right),
    )


def _name(pair: RevealedPair, winner: str) -> str:
    """Name an arm; both arms of an A/A test may have any names."""
    return {"tie": say("a tie"), "control": pair.control, "treatment": pair.treatment}[winner]


def _prompt(text: str, *, opened: bool) -> Markup:
    shown = Markup(" open") if opened and len(text) <= _SHORT else ""
    return _TEXT.format(title=say("Prompt"), text=text, open=shown)
