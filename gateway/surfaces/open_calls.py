"""The calls of a conversation that no result has answered yet, in dialects whose ids are optional.

A result without an id belongs to a call of its name. Each call is looked at a constant number of
times, so a conversation of many calls does not hold the interpreter.
"""

from collections import deque

from msgspec import Struct


class _Call(Struct, kw_only=True):
    id: str
    name: str
    answered: bool = False


class OpenCalls:
    """Mutable state: the calls, in the order in which the model made them."""

    def __init__(self) -> None:
        self._ids: dict[str, deque[_Call]] = {}
        self._latest: deque[_Call] = deque()
        self._names: dict[str, deque[_Call]] = {}
        self._earlier: dict[str, deque[_Call]] = {}

    def add(self, id: str, name: str) -> None:
        call = _Call(id=id, name=name)
        self._latest.append(call)
        self._ids.setdefault(id, deque()).append(call)
        self._names.setdefault(name, deque()).append(call)

    def next_turn(self) -> None:
        """Put the calls so far behind those of the turn that begins, for results with a name."""
        for name, calls in self._names.items():
            self._earlier.setdefault(name, deque()).extend(calls)
        self._latest, self._names = deque(), {}

    def of_id(self, id: str) -> str | None:
        """Return the call with this id, which is open no longer; `None` if there is none."""
        return _take(self._ids.get(id))

    def of_name(self, name: str) -> str | None:
        """Return the first call of this name, of the latest turn before the earlier ones.

        It is open no longer. `None` if there is none.
        """
        latest = _take(self._names.get(name))
        return _take(self._earlier.get(name)) if latest is None else latest

    def first(self) -> str | None:
        """Return the first call of the latest turn, which is open no longer."""
        return _take(self._latest)


def _take(calls: deque[_Call] | None) -> str | None:
    while calls:
        call = calls.popleft()
        if not call.answered:
            call.answered = True
            return call.id
    return None
