"""Assembles tool calls from the pieces in which the OpenAI dialect sends them.

Servers repeat ids and names, omit indexes, give every parallel call the index 0, or send the rest
of a call's arguments under an index of its own. Calls of types other than `function`, and unknown
members of a call, are forwarded as they are.
"""

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.adapters.openai.wire import Function, ToolPiece
from strowger_gateway.schemas.events import ToolDelta

_NOTHING = Function()


class _Google(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    thought_signature: str


class _ExtraContent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a call's signature on Google's endpoint of this dialect.

    https://ai.google.dev/gemini-api/docs/thought-signatures#openai
    """

    google: _Google


_extra_content = msgspec.json.Decoder(_ExtraContent).decode


class _Call:
    """place: 0, 1, … within the choice. named: its first piece has been emitted.

    function: `False` for a call of another type, which is forwarded piece by piece.
    """

    __slots__ = ("function", "given", "held", "id", "named", "place", "written")

    def __init__(self, place: int, given: str, *, function: bool) -> None:
        self.function = function
        self.place = place
        self.given = given
        self.id = given
        self.named = False
        self.held = ""
        self.written = False


class ToolCalls:
    """The calls of one choice.

    prefix: starts the generated id of a call without one.
    """

    def __init__(self, choice: int, prefix: str) -> None:
        self._choice = choice
        self._prefix = prefix
        self._calls: list[_Call] = []
        self._at_index: dict[int, _Call] = {}
        self._others: list[dict[str, object]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, piece: ToolPiece) -> list[ToolDelta]:
        """Add a piece. A call starts when its name is known; arguments are held until then."""
        function = piece.function or _NOTHING
        call = self._call(piece, function)
        if not call.function:
            self._others.append(_entry(call, piece))
            return []
        name, arguments = function.name or "", function.arguments or ""
        begins = bool(name) and not call.named
        more = dict(piece.more)
        signature = _signature(more) if begins else ""
        if signature:
            del more["extra_content"]
        if more:
            self._others.append({"index": call.place, **more})
        if call.named:
            return [self._delta(call, arguments=arguments)] if arguments else []
        call.held += arguments
        return [self._begin(call, name, signature)] if begins else []

    def others(self) -> list[dict[str, object]]:
        """Return new entries of `tool_calls` that do not fit a ToolDelta, since the last call."""
        found, self._others = self._others, []
        return found

    def close(self) -> list[ToolDelta]:
        """Finish the calls: without arguments they get `{}`; unnamed ones are emitted now."""
        deltas: list[ToolDelta] = []
        for call in self._calls:
            if not call.function:
                continue
            if not call.named:
                deltas.append(self._begin(call, ""))
            if not call.written:
                deltas.append(self._delta(call, arguments="{}"))
        return deltas

    def _call(self, piece: ToolPiece, function: Function) -> _Call:
        """Return the call that a piece belongs to, creating it if necessary."""
        given = piece.id or ""
        if piece.index is not None:
            known = self._at_index.get(piece.index)
        else:
            known = self._calls[-1] if self._calls else None
        other = known is not None and given and known.given and given != known.given
        begins = function.name or piece.type not in (None, "function")
        if known is None and not given and not begins and not piece.more and self._calls:
            return self._calls[-1]
        unnumbered = piece.index is None and known is not None and not given and begins
        complete = known is not None and (known.named or not known.function)
        if known is None or (other and begins) or (unnumbered and complete):
            known = _Call(len(self._calls), given, function=_is_function(piece))
            known.id = given or f"call_{self._prefix}_{self._choice}_{known.place}"
            self._calls.append(known)
            if piece.index is not None:
                self._at_index[piece.index] = known
        elif given and not known.given and not known.named:
            known.given = known.id = given
        return known

    def _begin(self, call: _Call, name: str, signature: str = "") -> ToolDelta:
        call.named = True
        held, call.held = call.held, ""
        call.written = bool(held.strip())
        return ToolDelta(
            tool=call.place,
            index=self._choice,
            id=call.id,
            name=name,
            arguments=held,
            signature=signature,
        )

    def _delta(self, call: _Call, *, arguments: str) -> ToolDelta:
        call.written = call.written or bool(arguments.strip())
        return ToolDelta(tool=call.place, index=self._choice, arguments=arguments)


def _entry(call: _Call, piece: ToolPiece) -> dict[str, object]:
    """Return a piece of a call of another type, with the call's index among all calls."""
    entry: dict[str, object] = {"index": call.place}
    if piece.id:
        entry["id"] = piece.id
    if piece.type:
        entry["type"] = piece.type
    return {**entry, **piece.more}


def _is_function(piece: ToolPiece) -> bool:
    """Decide by a call's first piece: its type, or its content if it has no type."""
    if piece.function is not None:
        return True
    return piece.type == "function" or (piece.type is None and not piece.more)


def _signature(more: dict[str, Raw]) -> str:
    """Return "" if `extra_content` is absent, or contains more than Google's signature."""
    raw = more.get("extra_content")
    try:
        return "" if raw is None else _extra_content(raw).google.thought_signature
    except UNREADABLE:
        return ""
