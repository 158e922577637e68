"""Proofs of reasoning that one maker's models wrote, kept from the models of others.

A maker's own models read its proofs on any service, as an aggregator's. To all others they are
bytes that mean nothing, and that another company's server need not see.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from adapters.repairs.rewriting import each_message, with_members
from adapters.repairs.rule import Aim, Repair, Repaired
from schemas.content_facts import THOUGHTS
from schemas.fields import REASONING
from schemas.messages import CLAUDE, GEMINI, OPENAI, Message, Thought, thinking_of, thoughts_of
from schemas.requests import ChatRequest, Request

READERS: Final[Mapping[str, re.Pattern[str]]] = {
    CLAUDE: re.compile("claude", re.IGNORECASE),
    GEMINI: re.compile("gemini", re.IGNORECASE),
    OPENAI: re.compile("gpt|codex|(?:^|/)o[1-9]", re.IGNORECASE),
    "azure-openai-responses-v1": re.compile("gpt|codex|(?:^|/)o[1-9]", re.IGNORECASE),
    "xai-responses-v1": re.compile("grok", re.IGNORECASE),
}
"""By the format of a proof, the names of the models that read it.
https://openrouter.ai/docs/guides/best-practices/reasoning-tokens"""

_CHOSEN_THERE: Final = re.compile(r"(?:^|/)(?:auto|free)(?:$|[-:])|(?:^|/)[@~]")
"""Names for which an aggregator chooses a model, which may read any proof."""

_FIELDS: Final[Mapping[str, object]] = {"reasoning_details": UNSET, "reasoning_signature": UNSET}
_TEXTS: Final = (b'"reasoning"', b'"reasoning_content"')


def _without(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, lambda one: _plain(one, aim.model))
    if found is None:
        return None
    lost = any(
        _is_foreign(thought, aim.model) and not thought.text
        for one in request.messages
        for thought in thoughts_of(one)
        if thought.data
    )
    return Repaired(
        request=found,
        changed=("messages[].reasoning_details",),
        left_out=(REASONING,) if lost else (),
    )


def _plain(one: Message, model: str) -> Message:
    """Return the message with the text of reasoning whose proof the model does not read."""
    before = thoughts_of(one)
    if not any(_is_foreign(thought, model) for thought in before):
        return one
    kept = [
        Thought(text=thought.text) if _is_foreign(thought, model) else thought
        for thought in before
        if thought.text or not _is_foreign(thought, model)
    ]
    text, raw = thinking_of(one), one.raw
    if isinstance(raw, Raw):
        shown = any(name in bytes(raw) for name in _TEXTS)
        more = {"reasoning_content": text} if text and not shown else {}
        raw = with_members(raw, {**_FIELDS, **more})
    reasoning = text or UNSET
    return replace(one, thoughts=tuple(kept), reasoning=reasoning, signature=UNSET, raw=raw)


def _is_foreign(thought: Thought, model: str) -> bool:
    readers = None if thought.kind == "text" else READERS.get(thought.proof_format)
    return readers is not None and readers.search(model) is None


def _is_one_model(model: str) -> bool:
    return _CHOSEN_THERE.search(model) is None


FOREIGN_PROOFS: Final = Repair(
    name="foreign_proof",
    about="sends the text of other makers' reasoning without their proofs",
    source="https://openrouter.ai/docs/guides/best-practices/reasoning-tokens",
    facts=THOUGHTS,
    apply=_without,
    example=ChatRequest(
        "m",
        (
            Message(role="user", content="one"),
            Message(
                role="assistant",
                content="two",
                thoughts=(Thought(text="hm", signature="c2ln", format=CLAUDE),),
            ),
            Message(role="user", content="three"),
        ),
    ),
    models=_is_one_model,
    light=True,
)
