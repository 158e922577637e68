"""`GET /admin/prompts`, and the view of the page: versions, their texts, and what has changed."""

from datetime import UTC, datetime
from typing import Annotated, Final

from markupsafe import Markup
from msgspec import Meta, Struct

from strowger_gateway.gateway.content.prompts.history import (
    PromptView,
    VersionView,
    difference,
    prompt_views,
)
from strowger_gateway.gateway.content.prompts.process_side import PromptsSide
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.schemas.errors import PromptNotFound

say = words_of(__file__)

_NAME = Annotated[str, Meta(description="only this prompt", max_length=64)]


class PromptsAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which prompts: all, or one."""

    name: _NAME = ""


class PromptList(Struct, frozen=True, kw_only=True):
    """recorded: the store was read; without it, only what the configuration has is known."""

    prompts: tuple[PromptView, ...]
    recorded: bool


async def prompt_list(call: AdminCall[PromptsAsked]) -> PromptList:
    """Raises PromptNotFound, and StoreUnavailable."""
    stored = await call.side(PromptsSide).texts()
    found = prompt_views(call.config.prompts, stored or ())
    if call.given.name:
        found = tuple(one for one in found if one.name == call.given.name)
        if not found:
            raise PromptNotFound(f"name: no prompt is named {call.given.name!r}", param="name")
    return PromptList(prompts=found, recorded=stored is not None)


ROUTE: Final = AdminRoute(
    method="GET",
    path="/prompts",
    role="viewer",
    summary="Prompts with the texts of their versions, also of those removed or changed",
    takes=PromptsAsked,
    returns=PromptList,
    answer=prompt_list,
)

_PROMPT: Final = say.template("""<section><h2>{name}</h2>{removed}
<div class="scroll"><table>
<thead><tr><th>[[Version]]<th>[[Text]]<th>[[Needs]]<th>[[Optional]]<th>[[First seen]]<th>[[Last
seen]]</tr></thead>
<tbody>{rows}</tbody></table></div>{texts}</section>
""")
_ROW: Final = Markup("""<tr><td>{version}<td><code>{digest}</code>{mark}<td>{fields}<td>{optional}
<td>{first}<td>{last}</tr>
""")
_TEXT: Final = Markup("""<details><summary>{title}</summary><pre>{text}</pre></details>
""")
_NONE: Final = say.template("<section><p>[[No prompts are configured.]]</p></section>")
_REMOVED: Final = say.template("<p>[[Removed from the configuration.]]</p>")


async def render(call: AdminCall[PromptsAsked]) -> Markup:
    """Return a section for each prompt. Raises as `prompt_list`."""
    found = (await prompt_list(call)).prompts
    return Markup().join(_section(one) for one in found) or _NONE.format()


VIEW: Final = PageView(
    name="prompts",
    title=sentence("Prompts"),
    say=say,
    group="models",
    role="viewer",
    takes=PromptsAsked,
    render=render,
)


def _section(prompt: PromptView) -> Markup:
    texts = [
        _TEXT.format(title=f"{one.version} ({one.digest})", text=one.text)
        for one in prompt.versions
    ]
    for before, after in zip(prompt.versions, prompt.versions[1:], strict=False):
        lines = "\n".join(difference(before, after, prompt.name))
        title = say(
            "From {old} to {new}",
            old=f"{before.version} ({before.digest})",
            new=f"{after.version} ({after.digest})",
        )
        texts.append(_TEXT.format(title=title, text=lines or say("no difference")))
    return _PROMPT.format(
        name=prompt.name,
        removed=_REMOVED.format() if prompt.removed else "",
        rows=Markup().join(map(_row, prompt.versions)),
        texts=Markup().join(texts),
    )


def _row(one: VersionView) -> Markup:
    mark = "" if one.current else say(" (not in the configuration)")
    if one.default:
        mark = say(" (default)")
    return _ROW.format(
        version=one.version,
        digest=one.digest,
        mark=mark,
        fields=", ".join(one.fields),
        optional=", ".join(one.optional),
        first=day(one.first_seen),
        last=day(one.last_seen),
    )


def day(at: float | None) -> str:
    """Return a time to the minute, in UTC; "" if it is not known."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
