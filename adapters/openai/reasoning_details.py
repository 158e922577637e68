"""Reasoning that a client sends back, as OpenRouter's `reasoning_details`.

A client that keeps a stream's pieces returns a block in pieces, which no vendor accepts: they
become one again. What the gateway has as one proof is what OpenRouter has: encrypted data with the
id of OpenAI's item, or of the call that Gemini signs. All else is sent as it came.
https://openrouter.ai/docs/guides/best-practices/reasoning-tokens
https://github.com/agno-agi/agno/pull/5802
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.adapters.openai.encode import Body
from strowger_gateway.adapters.openai.thought_blocks import DETAILS, GOOGLES_PARTS
from strowger_gateway.schemas.messages import (
    GEMINI,
    ITEM_FORMATS,
    Message,
    Thought,
    ToolCall,
    thoughts_of,
)

_entries: Final = msgspec.json.Decoder(list[Body])
_TEXTS: Final[Mapping[object, str]] = {"reasoning.text": "text", "reasoning.summary": "summary"}
_ENCRYPTED: Final = "reasoning.encrypted"


def details_of(one: Message, fields: Mapping[str, object]) -> object:
    """Return the field for a message; `None` if it has no reasoning with a proof.

    fields: of the message as it would be sent. The client's own list is returned as it is if it is
    in OpenRouter's form.
    """
    sent = fields.get(DETAILS)
    before = _read(sent) if isinstance(sent, Raw) else None
    if before is None:
        thoughts = thoughts_of(one)
        proven = any(thought.kind != "text" for thought in thoughts)
        before = [_entry(thought) for thought in thoughts] if proven else []
    found = [part for entry in _whole(before) for part in _parts(entry)]
    found += _of_calls(one.tool_calls, found)
    if isinstance(sent, Raw) and found == before:
        return sent
    if any("index" not in entry for entry in found):
        found = [{**entry, "index": place} for place, entry in enumerate(found)]
    return found or None


def _read(raw: Raw) -> list[Body] | None:
    try:
        return _entries.decode(raw)
    except UNREADABLE:
        return None


def _entry(thought: Thought) -> Body:
    entry: Body = {"type": "reasoning.text", "text": thought.text}
    if thought.data:
        entry = {"type": _ENCRYPTED, "data": thought.data}
    if thought.signature:
        entry["signature"] = thought.signature
    return entry if thought.kind == "text" else {**entry, "format": thought.proof_format}


def _whole(entries: Iterable[Body]) -> list[Body]:
    """Join the pieces of a block: neighbours of one number, the last of which may have a proof."""
    found: list[Body] = []
    for entry in entries:
        last = found[-1] if found else {}
        kind, place = entry.get("type"), entry.get("index")
        name = _TEXTS.get(kind)
        same = name is not None and kind == last.get("type") and place == last.get("index")
        if name is None or place is None or not same or last.get("signature"):
            found.append(entry)
            continue
        text = f"{last.get(name) or ''}{entry.get(name) or ''}"
        news = {key: value for key, value in entry.items() if value is not None}
        found[-1] = {**last, **news, name: text}
    return found


def _parts(entry: Body) -> list[Body]:
    """Return the entries that an entry of the gateway's making is in OpenRouter's form."""
    format = entry.get("format")
    if format not in ITEM_FORMATS and format != GEMINI:
        return [entry]
    proof = entry.get("signature") or ("" if "id" in entry else entry.get("data"))
    if not isinstance(proof, str) or not proof:
        return [entry]
    if proof.startswith(GOOGLES_PARTS):
        return []
    head, separator, data = proof.partition(".")
    own: Body = {"type": _ENCRYPTED, "data": proof, "format": format}
    text = entry.get("text")
    if separator and format != GEMINI:
        own = {**own, "data": data, "id": head}
    elif text or "data" in entry:
        return [entry]
    named: Body = {"type": "reasoning.summary", "summary": text, "format": format}
    return [named, own] if text else [own]


def _of_calls(calls: Iterable[ToolCall], known: Iterable[Body]) -> list[Body]:
    """Return Gemini's proofs of calls, of which there is none yet."""
    ids = {entry.get("id") for entry in known}
    return [
        {"type": _ENCRYPTED, "data": call.signature, "id": call.id, "format": GEMINI}
        for call in calls
        if call.signature and call.id not in ids
    ]
