"""Encodes conversations as Gemini's `systemInstruction` and `contents`.

A tool result names the function, consecutive results are one turn, and a reasoning signature is
sent back on the part that it came with.
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, UnsetType

from strowger_gateway.adapters.gemini.generated_images import sent_back
from strowger_gateway.adapters.gemini.other_parts import from_reasoning, own_parts
from strowger_gateway.adapters.gemini.parts import Body, part_of
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    GEMINI,
    Message,
    TextPart,
    ToolCall,
    provable_thoughts,
    text_of,
)

SKIPPED = "skip_thought_signature_validator"
"""Google's placeholder signature for calls that another model made.
https://ai.google.dev/gemini-api/docs/thought-signatures#faqs"""


class GeminiConversation(Struct, frozen=True, kw_only=True):
    system: list[Body]
    contents: list[Body]


def conversation(messages: Sequence[Message], *, proofs: bool) -> GeminiConversation:
    """Raises InvalidRequest, naming the path, for unsupported message fields.

    proofs: the model rejects a turn with calls but no signature.
    """
    system: list[Body] = []
    contents: list[Body] = []
    results: list[Body] | None = None
    names: dict[str, str] = {}
    for place, one in enumerate(messages):
        if one.role in ("tool", "function"):
            result = _result(one, place, names)
            if results is None:
                results = []
                contents.append({"role": "user", "parts": results})
            results.append(result)
            continue
        results = None
        if one.name:
            field = f"messages[{place}].name"
            raise InvalidRequest(
                f"{field}: this backend does not support names; write the name into the text",
                param=field,
            )
        match one.role:
            case "system" | "developer":
                system += _parts(one, place)
            case "user":
                contents.append({"role": "user", "parts": _parts(one, place) or [{"text": ""}]})
            case "assistant":
                names |= {call.id: call.name for call in one.tool_calls}
                contents.append({"role": "model", "parts": _turn(one, place, proofs=proofs)})
    if not contents:
        raise InvalidRequest(
            "messages: this backend needs one that is not an instruction; send a user message",
            param="messages",
        )
    return GeminiConversation(system=system, contents=contents)


def _turn(one: Message, place: int, *, proofs: bool) -> list[Body]:
    """Encode reasoning, text, calls. A signature without reasoning belongs to the text.

    Encrypted reasoning and proofs of other vendors are omitted: Gemini rejects a proof that is not
    its own.
    """
    thoughts: list[Body] = []
    parts = own_parts(one)
    loose: list[str] = []
    for thought in provable_thoughts(one, (GEMINI,)):
        if thought.data:
            parts += from_reasoning(thought.data)
        elif thought.text:
            thoughts.append(_signed({"text": thought.text, "thought": True}, thought.signature))
        elif thought.signature:
            loose.append(thought.signature)
    texts = _parts(one, place) if one.content else []
    for nth, signature in enumerate(loose):
        if nth == 0 and texts:
            texts[0] = _signed(texts[0], signature)
        else:
            texts.append(_signed({"text": ""}, signature))
    calls = [_call(call, place, at) for at, call in enumerate(one.tool_calls)]
    if proofs and calls and not any(call.signature for call in one.tool_calls):
        calls[0] = _signed(calls[0], SKIPPED)
    images = sent_back(one, f"messages[{place}]")
    return [*thoughts, *parts, *texts, *images, *calls] or [{"text": ""}]


def _signed(part: Body, signature: str) -> Body:
    return {**part, "thoughtSignature": signature} if signature else part


def _call(call: ToolCall, place: int, at: int) -> Body:
    field = f"messages[{place}].tool_calls[{at}].function.arguments"
    try:
        arguments = read_object(call.arguments.strip() or "{}")
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: must be a JSON object in a string", param=field) from exc
    function: Body = {"id": call.id} if call.id else {}
    return _signed(
        {"functionCall": {**function, "name": call.name, "args": arguments}}, call.signature
    )


def _result(one: Message, place: int, names: Mapping[str, str]) -> Body:
    """names: the functions that were called before, by the call's id."""
    response: Body = {}
    if isinstance(one.tool_call_id, UnsetType):
        name, field = one.name or "", f"messages[{place}].name"
        remedy = "send the name of the function that returned this result"
    else:
        name, field = names.get(one.tool_call_id, ""), f"messages[{place}].tool_call_id"
        remedy = "no call before it has this id, and this backend needs the function's name"
        response["id"] = one.tool_call_id
    if not name:
        raise InvalidRequest(f"{field}: {remedy}", param=field)
    response |= {"name": name, "response": _object(text_of(one))}
    if isinstance(one.content, tuple):
        others = [
            part_of(part, f"messages[{place}].content[{index}]")
            for index, part in enumerate(one.content)
            if not isinstance(part, TextPart)
        ]
        if others:
            response["parts"] = others
    return {"functionResponse": response}


def _object(text: str) -> Mapping[str, object]:
    """Return an object unchanged, anything else as `result` of an object."""
    if text.lstrip()[:1] == "{":
        try:
            return read_object(text)
        except UNREADABLE:
            return {"result": text}
    return {"result": text}


def _parts(one: Message, place: int) -> list[Body]:
    content = one.content
    if content is None:
        return []
    if isinstance(content, str):
        return [{"text": content}]
    return [
        part_of(part, f"messages[{place}].content[{index}]") for index, part in enumerate(content)
    ]
