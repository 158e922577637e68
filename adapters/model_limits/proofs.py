"""Proofs of reasoning that one maker's models wrote, kept from the models of others.

A maker's own models read its proofs on any service, as an aggregator's. To all others they are
bytes that mean nothing, and that another company's server need not see.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import each_message, with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import THOUGHTS
from strowger_gateway.schemas.fields import REASONING
from strowger_gateway.schemas.messages import (
    CLAUDE,
    GEMINI,
    MISTRAL,
    OPENAI,
    Message,
    Thought,
    thinking_of,
    thoughts_of,
)
from strowger_gateway.schemas.requests import ChatRequest, Request

READERS: Final[Mapping[str, re.Pattern[str]]] = {
    CLAUDE: re.compile("claude", re.IGNORECASE),
    GEMINI: re.compile("gemini", re.IGNORECASE),
    OPENAI: re.compile("gpt|codex|(?:^|/)o[1-9]", re.IGNORECASE),
    "azure-openai-responses-v1": re.compile("gpt|codex|(?:^|/)o[1-9]", re.IGNORECASE),
    "xai-responses-v1": re.compile("grok", re.IGNORECASE),
    MISTRAL: re.compile("(?!)"),
}
"""By the format of a proof, the names of the models that read it. Mistral's is for its own API.
https://openrouter.ai/docs/guides/best-practices/reasoning-tokens"""

Reads = Callable[[str, str], bool]
"""Whether a format's proofs are read by a model, by its name."""

_CHOSEN_THERE: Final = re.compile(r"(?:^|/)(?:auto|free)(?:$|[-:])|(?:^|/)[@~]")
"""Names for which an aggregator chooses a model, which may read any proof."""

_FIELDS: Final[Mapping[str, object]] = {"reasoning_details": UNSET, "reasoning_signature": UNSET}
_TEXTS: Final = (b'"reasoning"', b'"reasoning_content"')


def _by_name(format: str, model: str) -> bool:
    """Formats that are not known here may be the model's."""
    readers = READERS.get(format)
    return readers is None or readers.search(model) is not None


def _is_foreign(thought: Thought, model: str, reads: Reads) -> bool:
    return thought.kind != "text" and not reads(thought.proof_format, model)


def _plain(one: Message, model: str, reads: Reads) -> Message:
    """Return the message with the text of reasoning whose proof the model does not read."""
    before = thoughts_of(one)
    if not any(_is_foreign(thought, model, reads) for thought in before):
        return one
    kept = [
        Thought(text=thought.text) if _is_foreign(thought, model, reads) else thought
        for thought in before
        if thought.text or not _is_foreign(thought, model, reads)
    ]
    text, raw = thinking_of(one), one.raw
    if isinstance(raw, Raw):
        shown = any(name in bytes(raw) for name in _TEXTS)
        more = {"reasoning_content": text} if text and not shown else {}
        raw = with_members(raw, {**_FIELDS, **more})
    reasoning = text or UNSET
    return replace(one, thoughts=tuple(kept), reasoning=reasoning, signature=UNSET, raw=raw)


def _is_one_model(model: str) -> bool:
    return _CHOSEN_THERE.search(model) is None


def foreign_proofs(reads: Reads = _by_name, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for a vendor. models: those for which it holds."""

    def apply(request: Request, aim: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        found = each_message(request, lambda one: _plain(one, aim.model, reads))
        if found is None:
            return None
        lost = any(
            thought.data and not thought.text and _is_foreign(thought, aim.model, reads)
            for one in request.messages
            for thought in thoughts_of(one)
        )
        return Repaired(
            request=found,
            changed=("messages[].reasoning_details",),
            left_out=(REASONING,) if lost else (),
        )

    return Repair(
        name="foreign_proof",
        about="sends the text of other makers' reasoning without their proofs",
        source="https://openrouter.ai/docs/guides/best-practices/reasoning-tokens",
        facts=THOUGHTS,
        apply=apply,
        example=ChatRequest(
            "m",
            (
                Message(role="user", content="one"),
                Message(
                    role="assistant",
                    content="two",
                    thoughts=(Thought(text="hm", signature="c2ln", format=GEMINI),),
                ),
                Message(role="user", content="three"),
            ),
        ),
        models=models,
        light=True,
    )


FOREIGN_PROOFS: Final = foreign_proofs(models=_is_one_model)
