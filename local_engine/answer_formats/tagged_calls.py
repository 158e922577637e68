"""Read tool calls that have one element per argument, as in XML."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

from strowger_gateway.local_engine.answer_formats.calls import Call, Functions, Item
from strowger_gateway.local_engine.answer_formats.formats import TaggedBody
from strowger_gateway.local_engine.answer_formats.loose_values import written
from strowger_gateway.local_engine.answer_formats.typed_values import typed

LONGEST_NAME = 256
"""Characters."""


def begins_tagged(body: TaggedBody, closes: Sequence[str], text: str) -> bool | None:
    """Return whether a call begins here, `None` if that is not known yet.

    closes: marks after the calls.
    """
    before, after = body.call
    if not text.startswith(before):
        return None if before.startswith(text) else False
    if before:
        return True
    name = re.match(r"\s*([\w.\-]*)\s*", text)
    rest = text[name.end() :] if name else text
    if not rest:
        return None if len(text) <= LONGEST_NAME else False
    if name is None or not name.group(1):
        return False
    marks = [mark for mark in (after.strip(), body.key[0], body.end, *closes) if mark]
    if any(rest.startswith(mark) for mark in marks):
        return True
    return None if any(mark.startswith(rest) for mark in marks) else False


class TaggedReader:
    """See CallReader.

    A mark that closes the call counts only outside an argument: a file that a model writes may
    contain it. If the argument is never closed, the first such mark was the end after all.
    A name that a text mentions is not a call: arguments, or the end, follow a call's name.
    """

    def __init__(self, body: TaggedBody, closes: Sequence[str], functions: Functions) -> None:
        """closes: marks after the calls."""
        self._body = body
        self._functions = functions
        ends = dict.fromkeys(mark for mark in (body.end, *closes) if mark)
        before = body.call[0]
        self._named = not before
        self._follows = [mark for mark in (body.key[0], before, *ends) if mark]
        self._groups = [
            ("open", [body.key[0]]),
            ("shut", [body.value[1]]),
            ("call", [before] if before else []),
            ("end", [body.end] if body.end else list(ends)),
            ("after", [mark for mark in ends if mark != body.end] if body.end else []),
        ]
        self._marks = re.compile(
            "|".join(
                f"(?P<{name}>{'|'.join(map(re.escape, marks))})"
                for name, marks in self._groups
                if marks
            )
        )
        self._longest = max(len(mark) for _, marks in self._groups for mark in marks)
        self._at = len(before)
        self._open = False
        self._doubtful: tuple[int, int] | None = None

    def read(self, text: str, *, last: bool) -> Item | None:
        if not self._named and (mentioned := self._mentioned(text, last=last)):
            return Item(count=mentioned)
        while (found := self._marks.search(text, self._at)) is not None:
            self._at = found.end()
            kind = found.lastgroup
            if kind == "open":
                self._open = True
            elif kind == "shut":
                self._open = False
                self._doubtful = None
            elif kind == "call":
                if self._doubtful is not None:
                    return self._item(text, *self._doubtful)
            else:
                end = (found.start(), found.end() if kind == "end" else found.start())
                if not self._open:
                    return self._item(text, *end)
                self._doubtful = self._doubtful or end
        self._at = max(self._at, len(text) - self._longest)
        if not last:
            return None
        if self._doubtful is not None:
            return self._item(text, *self._doubtful)
        return Item(count=len(text)) if self._open else self._item(text, len(text), len(text))

    def _mentioned(self, text: str, *, last: bool) -> int:
        """Return where a name ends that is not a call's; 0 if it is, or if that is not known."""
        before, after = self._body.call
        mark = after.strip() or "\n"
        at = text.find(mark, len(before))
        if at < 0:
            return 0
        end = at + len(mark)
        rest = text[end:].lstrip()
        if not rest or (not last and any(one.startswith(rest) for one in self._follows)):
            return 0
        self._named = True
        odd = self._body.key[0] in text[:at]  # the mark is an argument's
        return 0 if odd or any(rest.startswith(one) for one in self._follows) else end

    def _item(self, text: str, end: int, count: int) -> Item:
        """end: where the call's last argument ends. count: characters of the call."""
        body = self._body
        before, after = body.call
        inside = text[len(before) : end]
        stops = [mark for mark in (after.strip() or "\n", body.key[0]) if mark in inside]
        cut = min((inside.find(mark) for mark in stops), default=len(inside))
        name = inside[:cut].strip().strip("\"'")
        if not re.fullmatch(r"[^\s<>{}]{1,256}", name):
            return Item(count=max(count, 1))
        rest = inside[cut:].removeprefix(after.strip())
        schema = self._functions.schema(name)
        found: dict[str, str] = {}
        for piece in self._pieces(rest, schema.get("properties")):
            key, string, value = self._argument(piece)
            if key:
                found[key] = written(value) if string else typed(value, key, schema)
        pairs = ", ".join(f"{written(key)}: {value}" for key, value in found.items())
        return Item(count=max(count, 1), calls=(Call(name=name, arguments=f"{{{pairs}}}"),))

    def _pieces(self, text: str, properties: object) -> list[str]:
        """Split a call into its arguments.

        An argument begins after the end of the one before. If that was not closed, it begins where
        the schema knows the name; anything else is part of the value.
        """
        mark, closing = self._body.key
        known = set(
            cast(Mapping[str, object], properties) if isinstance(properties, Mapping) else ()
        )
        pieces: list[str] = []
        begin = -1
        closed = re.compile(re.escape(self._body.value[1]) + r"\s*" + re.escape(mark))
        ends = {found.end() for found in closed.finditer(text)}
        longest = max(map(len, known), default=0) + len(closing) + LONGEST_NAME
        for found in re.finditer(re.escape(mark), text):
            after = text[found.end() : found.end() + longest]
            name = after.partition(closing)[0].strip().strip("\"'")
            if begin < 0:
                begin = found.end()
            elif found.end() in ends or name in known:
                pieces.append(text[begin : found.start()])
                begin = found.end()
        return pieces if begin < 0 else [*pieces, text[begin:]]

    def _argument(self, piece: str) -> tuple[str, bool, str]:
        """Return the name, whether it is marked as a string, and the value as written."""
        body = self._body
        key, _, rest = piece.partition(body.key[1])
        string = bool(body.text) and rest.startswith(body.text)
        if body.text:
            attributes = re.match(r"[^>]*>", rest)
            rest = rest[attributes.end() :] if attributes else rest
        if body.value[0]:
            rest = rest.partition(body.value[0].strip())[2]
        value, closed, _ = rest.rpartition(body.value[1])
        value = value if closed else rest.rstrip()
        if body.pad == "\n":
            value = value.removeprefix("\n").removesuffix("\n")
        return key.strip().strip("\"'"), string, value
