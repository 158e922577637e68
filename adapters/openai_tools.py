"""Tool calls put together from the pieces in which the OpenAI dialect sends them.

Servers repeat ids and names, leave out indexes, or give every parallel call the index 0.
"""

from adapters.openai_wire import Function, ToolPiece
from schemas.events import ToolDelta

_NOTHING = Function()


class _Call:
    """place: 0, 1, … within the choice. named: its first piece has gone out."""

    __slots__ = ("given", "held", "id", "named", "place", "written")

    def __init__(self, place: int, given: str) -> None:
        self.place = place
        self.given = given
        self.id = given
        self.named = False
        self.held = ""
        self.written = False


class ToolCalls:
    """The calls of one choice.

    prefix: begins the id of a call to which the server gave none.
    """

    def __init__(self, choice: int, prefix: str) -> None:
        self._choice = choice
        self._prefix = prefix
        self._calls: list[_Call] = []
        self._at_index: dict[int, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, piece: ToolPiece) -> list[ToolDelta]:
        """A call begins when its name is known; arguments that come earlier wait for it."""
        function = piece.function or _NOTHING
        call = self._call(piece, function)
        name, arguments = function.name or "", function.arguments or ""
        if call.named:
            return [self._delta(call, arguments=arguments)] if arguments else []
        call.held += arguments
        if not name:
            return []
        return [self._begin(call, name)]

    def close(self) -> list[ToolDelta]:
        """Calls without a single argument get `{}`; one that was never named comes out now."""
        deltas: list[ToolDelta] = []
        for call in self._calls:
            if not call.named:
                deltas.append(self._begin(call, ""))
            if not call.written:
                deltas.append(self._delta(call, arguments="{}"))
        return deltas

    def _call(self, piece: ToolPiece, function: Function) -> _Call:
        """The call that a piece belongs to, a new one if need be."""
        given = piece.id or ""
        if piece.index is not None:
            known = self._at_index.get(piece.index)
        else:
            known = self._calls[-1] if self._calls else None
        other = known is not None and given and known.given and given != known.given
        unnumbered = piece.index is None and known is not None and not given and function.name
        if known is None or (other and function.name) or (unnumbered and known.named):
            known = _Call(len(self._calls), given)
            known.id = given or f"call_{self._prefix}_{self._choice}_{known.place}"
            self._calls.append(known)
            if piece.index is not None:
                self._at_index[piece.index] = known
        elif given and not known.given and not known.named:
            known.given = known.id = given
        return known

    def _begin(self, call: _Call, name: str) -> ToolDelta:
        call.named = True
        delta = self._delta(call, id=call.id, name=name, arguments=call.held)
        call.held = ""
        return delta

    def _delta(self, call: _Call, *, arguments: str, id: str = "", name: str = "") -> ToolDelta:
        call.written = call.written or bool(arguments.strip())
        return ToolDelta(tool=call.place, index=self._choice, id=id, name=name, arguments=arguments)
