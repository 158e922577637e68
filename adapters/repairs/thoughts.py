"""Reasoning that a model's maker refuses: without a proof, or with another maker's.

Clients send a conversation back with the reasoning of whichever model answered. A vendor that
checks proofs refuses all but its own, for every later turn of the conversation.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import each_message, with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import CALLS, NESTED, OPAQUE, THOUGHTS
from strowger_gateway.schemas.fields import REASONING
from strowger_gateway.schemas.messages import (
    CLAUDE,
    GEMINI,
    Message,
    OpaquePart,
    Part,
    Thought,
    ToolCall,
    thoughts_of,
)
from strowger_gateway.schemas.requests import ChatRequest, Request

_BLOCKS: Final = "content_blocks"
_KINDS: Final = frozenset({"thinking", "redacted_thinking"})
_FIELDS: Final[Mapping[str, object]] = dict.fromkeys(
    ("reasoning", "reasoning_content", "reasoning_details", "reasoning_signature"), UNSET
)


class _Block(Struct, frozen=True, kw_only=True):
    """A block of Claude's, as clients of OpenAI's dialect return it among their parts."""

    type: str = ""
    signature: str = ""
    data: str = ""


class _Returned(Struct, frozen=True, kw_only=True):
    content_blocks: list[Raw] = []


_block = msgspec.json.Decoder(_Block).decode
_returned = msgspec.json.Decoder(_Returned).decode
_UNREADABLE = (msgspec.DecodeError, RecursionError)

Reads = Callable[[Thought], bool]


def without_thoughts(message: Message) -> Message:
    """Return the message without reasoning in fields of its own."""
    raw = message.raw
    if isinstance(raw, Raw):
        raw = with_members(raw, {**_FIELDS, "role": message.role, _BLOCKS: UNSET})
    return replace(message, thoughts=(), reasoning=UNSET, signature=UNSET, raw=raw)


def _only_own(message: Message, reads: Reads) -> Message:
    """Return the message without the reasoning that the backend does not read."""
    if message.role != "assistant":
        return message
    changes: dict[str, object] = {}
    raw = message.raw
    before = thoughts_of(message)
    after = tuple([one for one in before if reads(one)])
    if len(after) != len(before):
        changes |= {"thoughts": after, "reasoning": UNSET, "signature": UNSET}
        if isinstance(raw, Raw):
            raw = with_members(raw, {**_FIELDS, "role": message.role})
    if any(one.signature and not reads(_of_call(one)) for one in message.tool_calls):
        changes["tool_calls"] = tuple([replace(one, signature="") for one in message.tool_calls])
    if isinstance(message.content, tuple):
        parts = tuple([one for one in message.content if not _is_foreign(one, reads)])
        if len(parts) != len(message.content):
            changes["content"] = parts or None
    if isinstance(raw, Raw):
        raw = _without_foreign_blocks(raw, reads)
    if not changes and raw is message.raw:
        return message
    return replace(message, raw=raw, **changes)


def _of_call(call: ToolCall) -> Thought:
    return Thought(signature=call.signature, format=GEMINI)


def _is_foreign(part: Part, reads: Reads) -> bool:
    if not isinstance(part, OpaquePart) or part.type not in _KINDS:
        return False
    return _has_foreign_proof(part.raw, reads)


def _has_foreign_proof(raw: Raw, reads: Reads) -> bool:
    try:
        block = _block(raw)
    except _UNREADABLE:
        return False
    if block.type not in _KINDS:
        return False
    format, _, proof = (block.signature or block.data).rpartition(":")
    found = Thought(
        signature=proof if block.signature else "",
        data="" if block.signature else proof,
        format=format or (CLAUDE if proof else ""),
    )
    return not reads(found)


def _without_foreign_blocks(raw: Raw, reads: Reads) -> Raw:
    """Leave foreign blocks out of the blocks of an answer that the client returns with it."""
    if _BLOCKS.encode() not in bytes(raw):
        return raw
    try:
        blocks = _returned(raw).content_blocks
    except _UNREADABLE:
        return raw
    kept = [one for one in blocks if not _has_foreign_proof(one, reads)]
    return raw if len(kept) == len(blocks) else with_members(raw, {_BLOCKS: kept})


def own_thoughts(
    source: str,
    formats: Callable[[str], Collection[str]],
    checks: Callable[[str], bool] = every_model,
    models: Callable[[str], bool] = every_model,
) -> Repair:
    """Return the rule for a vendor that reads only reasoning with its own proof.

    formats: of the proofs that a model reads, by its name. checks: whether a model refuses
    reasoning without a proof; all others read its text. models: those for which the rule holds.
    """

    def apply(request: Request, aim: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        strict, own = checks(aim.model), formats(aim.model)

        def reads(thought: Thought) -> bool:
            return not strict if thought.kind == "text" else thought.proof_format in own

        found = each_message(request, lambda one: _only_own(one, reads))
        return None if found is None else Repaired(request=found, left_out=(REASONING,))

    return Repair(
        name="own_thoughts",
        about="leaves out reasoning without a proof, and reasoning with another vendor's",
        source=source,
        facts=THOUGHTS | CALLS | OPAQUE | NESTED,
        apply=apply,
        example=ChatRequest(
            "m",
            (
                Message(role="user", content="one"),
                Message(
                    role="assistant",
                    content="two",
                    thoughts=(Thought(text="hm", signature="c2ln", format="another-vendor-v1"),),
                ),
                Message(role="user", content="three"),
            ),
        ),
        loss="hint",
        models=models,
        light=True,
    )
