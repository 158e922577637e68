"""What only answers have, when a client sends an assistant's message back.

Clients return a message as they got it, with the citations of one vendor, the blocks of another and
what their own SDK added. The vendor that made a field may read it; others refuse an unknown one.
"""

from collections.abc import Callable, Collection
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import CALLS, NESTED
from strowger_gateway.schemas.messages import Message, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, Request

_BLOCKS: Final = frozenset(
    {"bedrock_blocks", "content_blocks", "content_parts", "gemini_parts", "output_items"}
)
"""Content that this gateway adds to a chat client's answer, for the vendor that made it."""

GATEWAYS: Final = _BLOCKS | frozenset(
    """
    avg_logprobs citation_metadata finish_message grounding_attributions grounding_metadata
    safety_ratings token_count url_context_metadata
    """.split()  # noqa: SIM905  twenty quoted strings are harder to read
)
"""All that it adds: what Gemini says of its answers too, in this dialect's spelling.
https://ai.google.dev/api/generate-content#candidate"""

REFUSAL: Final = "refusal"
"""OpenAI's: what the model said in place of an answer. Others get it as the turn's text."""

ANSWERS: Final = GATEWAYS | frozenset(
    """
    annotations citations context created end_turn executed_tools finish_reason id images index
    logprobs matched_stop model object parsed provider_specific_fields refusal search_results
    stop_reason thinking_blocks token_ids tool_plan usage videos web_search
    """.split()  # noqa: SIM905  twenty quoted strings are harder to read
)
"""Members of an answer's message, or of what SDKs and other gateways put into it.

`context` and `end_turn` are Azure's, of answers from own data.
"""

_CONTENT: Final = tuple([f'"{name}"'.encode() for name in sorted(_BLOCKS | {"images"})])

OF_CALLS: Final = frozenset(
    {"extra_content", "index", "parsed_arguments", "provider_specific_fields", "thought_signature"}
)
"""The same of a call. `extra_content` is Google's, with the proof of the reasoning before it."""

_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_items: Final = msgspec.json.Decoder(list[Raw])
_encode: Final = msgspec.json.Encoder().encode
_NULL: Final = Raw(b"null")
_PARTS: Final = "content_parts"


class _Part(Struct, frozen=True, kw_only=True):
    type: str = ""


_parts: Final = msgspec.json.Decoder(list[_Part])


def has_content_beside(one: Message) -> bool:
    """Return whether a message that came back may have content outside `content`."""
    raw = one.raw
    return isinstance(raw, Raw) and any(name in bytes(raw) for name in _CONTENT)


class AnswerFields(Struct, frozen=True, kw_only=True):
    """The members that a model's vendor does not read: of a message, and of a call.

    parts: types of `content_parts` that it reads, if a message has no others.
    """

    messages: frozenset[str] = ANSWERS
    calls: frozenset[str] = OF_CALLS
    parts: frozenset[str] = frozenset()


ALL: Final = AnswerFields()


def answer_fields(
    source: str, keeps: Collection[str] = (), of: Callable[[str], AnswerFields] | None = None
) -> Repair:
    """Return the rule for a vendor.

    source: where it documents a message's fields, or where a refusal is reported. keeps: those of
    the members that it reads. of: returns what a model does not read, if that differs.
    """
    without = AnswerFields(messages=ANSWERS - set(keeps), calls=OF_CALLS - set(keeps))

    def apply(request: Request, aim: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        cut = _Cut(without if of is None else of(aim.model))
        messages = tuple([cut.message(one, nested=request.nested) for one in request.messages])
        changed = (f"messages[].{REFUSAL}",) if cut.moved else ()
        if not (cut.paths or cut.moved or cut.unsigned):
            return None
        sent = replace(request, messages=messages)
        return Repaired(request=sent, left_out=tuple(cut.paths), changed=changed)

    return Repair(
        name="answer_field",
        about="leaves out what only answers have, when it comes back to another vendor",
        source=source,
        facts=NESTED | CALLS,
        apply=apply,
        example=_EXAMPLE,
        light=True,
    )


class _Cut:
    """Cuts members out of messages.

    paths: of what it has cut, each once. moved: a refusal became a text. unsigned: calls had proofs
    in `reasoning_details`, which stay behind as reasoning.
    """

    def __init__(self, fields: AnswerFields) -> None:
        self._of = fields
        self.paths: dict[str, None] = {}
        self.moved = self.unsigned = False

    def message(self, one: Message, *, nested: bool) -> Message:
        """nested: its JSON may have members that our schema does not have."""
        signed = "extra_content" in self._of.calls and any(
            call.signature for call in one.tool_calls
        )
        if signed:
            calls = [replace(call, signature="") for call in one.tool_calls]
            one = replace(one, tool_calls=tuple(calls))
            if isinstance(one.raw, Raw):
                self.unsigned = True
            else:
                self.paths["messages[].tool_calls[].extra_content"] = None
        if not isinstance(one.raw, Raw) or not (nested or signed):
            return one
        fields = self._said(one, _fields.decode(one.raw))
        kept = self._kept(fields, self._of.messages, "messages[]")
        if one.tool_calls:
            kept["tool_calls"] = self._calls(fields["tool_calls"])
        same = len(kept) == len(fields) and not self.moved
        if same and kept.get("tool_calls") is fields.get("tool_calls"):
            return one
        return replace(one, raw=Raw(_encode(kept)))

    def _said(self, one: Message, fields: dict[str, Raw]) -> dict[str, Raw]:
        """Return the members with a refusal as the text, if the vendor does not read it."""
        if REFUSAL not in fields or REFUSAL not in self._of.messages:
            return fields
        if fields.get("content", _NULL) != _NULL or not isinstance(one.content, str):
            return fields
        self.moved = True
        said = {**fields, "content": Raw(_encode(one.content))}
        return {name: raw for name, raw in said.items() if name != REFUSAL}

    def _calls(self, raw: Raw) -> Raw:
        found = [_fields.decode(call) for call in _items.decode(raw)]
        kept = [self._call(fields) for fields in found]
        return raw if kept == found else Raw(_encode(kept))

    def _call(self, fields: dict[str, Raw]) -> dict[str, Raw]:
        kept = self._kept(fields, self._of.calls, "messages[].tool_calls[]")
        function = kept.get("function")
        if function is not None and b"parsed_arguments" in bytes(function):
            path = "messages[].tool_calls[].function"
            inner = self._kept(_fields.decode(function), self._of.calls, path)
            kept["function"] = Raw(_encode(inner))
        return kept

    def _kept(self, fields: dict[str, Raw], names: frozenset[str], path: str) -> dict[str, Raw]:
        gone = names & fields.keys()
        if _PARTS in gone and _kinds(fields[_PARTS]) <= self._of.parts:
            gone -= {_PARTS}
        self.paths.update(dict.fromkeys([f"{path}.{name}" for name in sorted(gone)]))
        return {name: raw for name, raw in fields.items() if name not in gone}


def _kinds(raw: Raw) -> set[str]:
    """Return the types of parts; "" is one that is unreadable."""
    try:
        return {one.type for one in _parts.decode(raw)}
    except (msgspec.DecodeError, RecursionError):
        return {""}


_EXAMPLE: Final = ChatRequest(
    "m",
    (
        Message(role="user", content="What is the weather?"),
        Message(
            role="assistant",
            tool_calls=(
                ToolCall(id="call00001", name="weather", arguments="{}", signature="c2ln"),
            ),
        ),
        Message(role="tool", tool_call_id="call00001", content="Sunny."),
    ),
)
