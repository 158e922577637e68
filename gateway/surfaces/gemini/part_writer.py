"""Write the parts of one candidate, in the order in which they arrive.

A call is written when its arguments are complete, because a part has them as an object. Reasoning
that another vendor wants back is on the next part that is no thought (`carriers.py`): in front of a
call always, in front of a text if it has a proof.
"""

from typing import Final

from msgspec import Raw, Struct

from strowger_gateway.gateway.surfaces.gemini.carriers import carrier
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.schemas.events import ReasoningDelta, ToolDelta
from strowger_gateway.schemas.measured_json import kind_of_json
from strowger_gateway.schemas.messages import GEMINI, Thought, ToolCall

_NO_TEXT: Final = b'{"text":""}'


class _Thought(Struct, kw_only=True):
    texts: list[str]
    signature: str = ""
    data: str = ""
    format: str = ""


class _Call(Struct, kw_only=True):
    id: str
    name: str
    signature: str
    arguments: list[str]


class PartWriter:
    """Mutable state: the reasoning that no part carries yet, and the calls that are not written.

    plain: the next text is a part of nothing but text. calls: how many were written.
    answer: the id of the backend's answer, which is in the ids of calls that Google sends none for.
    """

    def __init__(self, index: int, *, thoughts: bool) -> None:
        """index: the candidate's. thoughts: the client wants to read them."""
        self.plain = True
        self.calls = 0
        self.answer = ""
        self._index = index
        self._shows = thoughts
        self._thoughts: dict[int, _Thought] = {}
        self._calls: dict[int, _Call] = {}

    def text(self, text: str) -> list[bytes]:
        """Return the parts of a piece of text, those in front of it included."""
        parts = self.complete()
        signature = self._carried(always=False)
        return [*parts, _signed(b'{"text":%b' % encode(text), signature)]

    def thought(self, event: ReasoningDelta) -> list[bytes]:
        """Return the parts of a piece of reasoning: none if the client does not read it."""
        parts = self.complete()
        if event.format == GEMINI and not event.data:
            return [*parts, *_googles(event.text, event.signature)]
        self.plain = False
        kept = self._thoughts.setdefault(event.block, _Thought(texts=[]))
        kept.texts.append(event.text)
        kept.signature += event.signature
        kept.data += event.data
        kept.format = event.format or kept.format
        if not (event.text and self._shows):
            return parts
        return [*parts, b'{"text":%b,"thought":true}' % encode(event.text)]

    def tool(self, event: ToolDelta) -> None:
        self.plain = False
        call = self._calls.get(event.tool)
        if call is None:
            call = _Call(id=event.id, name=event.name, signature=event.signature, arguments=[])
            self._calls[event.tool] = call
        call.arguments.append(event.arguments)

    def native(self, raw: Raw) -> list[bytes]:
        """Return Google's own part, and what was before it."""
        return [*self.complete(), one_line(bytes(raw))]

    def complete(self) -> list[bytes]:
        """Return the calls so far."""
        if not self._calls:
            return []
        calls, self._calls = self._calls, {}
        parts: list[bytes] = []
        for _, call in sorted(calls.items()):
            made = ToolCall(
                id=call.id,
                name=call.name,
                arguments="".join(call.arguments),
                signature=call.signature,
            )
            parts.append(self._call(made))
        return parts

    def finish(self) -> list[bytes]:
        """Return the last parts: what is open, and reasoning that no part has carried."""
        parts = self.complete()
        signature = self._carried(always=False)
        return [*parts, _signed(_NO_TEXT[:-1], signature)] if signature else parts

    def _call(self, call: ToolCall) -> bytes:
        signature = call.signature or self._carried(always=True)
        made = f"call_{self.answer}_{self._index}_{self.calls}"
        self.calls += 1
        return _call_part(call, "" if call.id == made else call.id, signature)

    def _carried(self, *, always: bool) -> str:
        """Return a signature with the reasoning so far; "" if there is none that must go back.

        always: also without a proof, as some vendors want it in front of calls.
        """
        kept = [
            Thought(
                text="".join(one.texts),
                signature=one.signature,
                data=one.data,
                format=one.format,
            )
            for _, one in sorted(self._thoughts.items())
        ]
        if not kept or not (always or any(one.kind != "text" for one in kept)):
            self.plain = True
            return ""
        self._thoughts = {}
        self.plain = True
        return carrier(kept)


def _googles(text: str, signature: str) -> list[bytes]:
    """Return Google's own thought; a signature without a text belongs to the text before it."""
    if not text:
        return [_signed(_NO_TEXT[:-1], signature)] if signature else []
    return [_signed(b'{"text":%b,"thought":true' % encode(text), signature)]


def _signed(part: bytes, signature: str) -> bytes:
    """part: JSON without its closing brace."""
    return part + (b',"thoughtSignature":%b}' % encode(signature) if signature else b"}")


def _call_part(call: ToolCall, call_id: str, signature: str) -> bytes:
    """Return a call. Arguments that a limit has cut off are none: clients need an object."""
    arguments = call.arguments or "{}"
    if kind_of_json(arguments) != "{":
        arguments = "{}"
    id = b'"id":%b,' % encode(call_id) if call_id else b""
    body = b'{"functionCall":{%b"name":%b,"args":%b}' % (
        id,
        encode(call.name),
        one_line(arguments.encode()),
    )
    return _signed(body, signature)
