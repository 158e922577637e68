"""Keep text that a client writes in a conversation from becoming a control token. No torch here.

A chat template renders a conversation to one text, and a tokenizer recognises control tokens in it
by their spelling, no matter who wrote them. If a client's text spells one, the client's strings are
marked before the template runs, so that the rendered text shows which spellings are the
template's. Those get a private spelling, and a second tokenizer that knows only the private
spellings reads the text.
"""

import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec
from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidRequest

JSON = dict[str, object]

FIXED = frozenset({"role", "type"})
"""Keys whose values the client cannot choose freely."""

STEP = 128 * 1024
"""Characters searched at a time."""

_PRIVATE = range(0xF0000, 0xFFFFE)
"""Supplementary Private Use Area-A, the source of marks."""


class Rendered(Struct, frozen=True, kw_only=True):
    """A conversation as text.

    spelled: the same text for the tokenizer of `ControlTokens.respelt`; "" where `text` is enough.
    """

    text: str
    spelled: str = ""


class _Added(Struct, frozen=True, kw_only=True):
    id: int
    content: str
    special: bool = False
    normalized: bool = False


class _Marks(Struct, frozen=True, kw_only=True):
    """One character each.

    open, close: around what a client's string spells. edge: where such a string begins or ends.
    fold: around a string that spells a control token only after normalization.
    """

    open: str
    close: str
    edge: str
    fold: str


class ControlTokens:
    """One tokenizer's control tokens: its special tokens and those that the template mentions.

    Safe to call from any thread.
    """

    def __init__(
        self,
        description: str,
        template: str,
        normalize: Callable[[str], str] | None = None,
    ) -> None:
        """description: the content of tokenizer.json. template: the chat template's source.

        normalize: the tokenizer's normalization before it looks for added tokens with
        `normalized: true`; `None` if it does not normalize.
        """
        read = cast(JSON, msgspec.json.decode(description))
        added = msgspec.convert(read.get("added_tokens") or [], type=list[_Added])
        self._tokens = [
            token
            for token in added
            if token.content.strip() and (token.special or token.content in template)
        ]
        contents = sorted({token.content for token in self._tokens}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, contents)) or r"(?!)")
        self._longest = max(map(len, contents), default=0)
        self._beginnings = tuple({text[:at] for text in contents for at in range(1, len(text))})
        self._ends = tuple({text[at:] for text in contents for at in range(1, len(text))})
        folded = [token.content for token in self._tokens if token.normalized]
        self._normalize = normalize if folded else None
        if self._normalize is not None:
            folded = [self._normalize(text).lstrip("▁ ") for text in folded]
        self._folded = re.compile("|".join(re.escape(text) for text in folded if text) or r"(?!)")
        nonce = secrets.token_hex(8)
        self._private = {token.content: f"<|{nonce}-{token.id}|>" for token in self._tokens}

    @property
    def ids(self) -> dict[int, str]:
        """The control tokens' ids and private spellings."""
        return {token.id: self._private[token.content] for token in self._tokens}

    @property
    def spellings(self) -> tuple[str, ...]:
        """The control tokens as text."""
        return tuple(token.content for token in self._tokens)

    def respelt(self, description: str) -> str:
        """Return the tokenizer.json with private spellings instead of the usual ones."""
        read = cast(JSON, msgspec.json.decode(description))
        for token in cast(list[JSON], read.get("added_tokens") or []):
            content = cast(str, token["content"])
            token["content"] = self._private.get(content, content)
        model = cast(JSON, read["model"])
        vocabulary = model.get("vocab")
        if isinstance(vocabulary, dict):
            known = cast(dict[str, int], vocabulary)
            model["vocab"] = {self._private.get(text, text): id for text, id in known.items()}
        elif isinstance(vocabulary, list):
            scored = cast(list[list[object]], vocabulary)
            model["vocab"] = [
                [self._private.get(cast(str, one[0]), one[0]), *one[1:]] for one in scored
            ]
        unknown = model.get("unk_token")
        if isinstance(unknown, str):
            model["unk_token"] = self._private.get(unknown, unknown)
        if merges := model.get("merges"):
            model["merges"] = [
                pair
                for pair in cast(list[str | list[str]], merges)
                if not self._touched(pair.split(" ") if isinstance(pair, str) else pair)
            ]
        return msgspec.json.encode(read).decode()

    def render(self, conversation: object, apply: Callable[[object], str]) -> Rendered:
        """Render a conversation.

        conversation: the template's input; any string in it may be the client's.
        apply: runs the template. Raises its exceptions, and InvalidRequest for a conversation that
        is nested too deep.
        """
        try:
            return self._render(conversation, apply)
        except RecursionError as exc:
            raise InvalidRequest(
                "messages: a value in this conversation is nested too deep; flatten it",
                param="messages",
            ) from exc

    def _render(self, conversation: object, apply: Callable[[object], str]) -> Rendered:
        strings = list(_strings(conversation))
        if all(map(self._harmless, strings)):
            return Rendered(text=apply(conversation))
        marks = _unused(strings)
        marked = apply(_changed(conversation, lambda text: self._marked(text, marks)))
        text, regions, edges = _unmarked(marked, marks, self._pattern)
        spelled, refused = self._spelled(text, regions, edges)
        if not refused:
            return Rendered(text=apply(conversation))
        return Rendered(text=text, spelled=spelled)

    def _touched(self, pair: Sequence[str]) -> bool:
        return "".join(pair) in self._private or any(text in self._private for text in pair)

    def _harmless(self, text: str) -> bool:
        """True if the text spells no control token, and adjacent text cannot complete it to one."""
        if self._is_spelt(text) or self._is_folded(text):
            return False
        return not (
            text.endswith(self._beginnings)
            or text.startswith(self._ends)
            or text.rstrip().endswith(self._beginnings)
            or text.lstrip().startswith(self._ends)
        )

    def _is_spelt(self, text: str) -> bool:
        """Search in steps, because searching a long text at once would block other threads."""
        return any(
            self._pattern.search(text, at, at + STEP + self._longest)
            for at in range(0, len(text), STEP)
        )

    def _is_folded(self, text: str) -> bool:
        if self._normalize is None:
            return False
        return self._folded.search(self._normalize(text)) is not None

    def _marked(self, text: str, marks: _Marks) -> str:
        """Put marks inside the white space around a text, because templates often strip it."""
        if self._harmless(text):
            return text
        if self._is_folded(text):
            inner = marks.fold + text.strip() + marks.fold
        else:
            inner = self._pattern.sub(
                lambda match: marks.open + match.group() + marks.close, text.strip()
            )
        head = text[: len(text) - len(text.lstrip())]
        tail = text[len(text.rstrip()) :] if text.strip() else ""
        outer = marks.edge if text != text.strip() else ""
        return outer + head + marks.edge + inner + marks.edge + tail + outer

    def _spelled(
        self, text: str, regions: list[tuple[int, int]], edges: list[int]
    ) -> tuple[str, bool]:
        """Spell the template's tokens privately; return the text and whether others exist."""
        pieces: list[str] = []
        at = start = 0
        refused = False
        begins = [begin for begin, _ in regions]
        while (match := self._pattern.search(text, start)) is not None:
            begin, end = match.span()
            inside = bisect_right(edges, begin) < bisect_left(edges, end)
            before = bisect_left(begins, end) - 1
            if inside or (before >= 0 and regions[before][1] > begin):
                refused, start = True, begin + 1
                continue
            pieces += [text[at:begin], self._private[match.group()]]
            at = start = end
        return "".join([*pieces, text[at:]]), refused or bool(regions)


def with_beginning(apply: Callable[[object], str]) -> Callable[[object], str]:
    """Return what renders a conversation and, behind it, the beginning of the answer.

    Its input is a list of the two. apply: renders the conversation.
    """

    def both(conversation: object) -> str:
        turns, begun = cast(tuple[object, str], conversation)
        return apply(turns) + begun

    return both


def _strings(value: object) -> Iterator[str]:
    """Yield all strings, in any order. Without recursion, whose every level costs each string."""
    left = [value]
    while left:
        match one := left.pop():
            case str():
                yield one
            case dict():
                for key, inner in cast(JSON, one).items():
                    yield key
                    if key not in FIXED or not isinstance(inner, str):
                        left.append(inner)
            case list():
                left += cast(list[object], one)
            case _:
                pass


def _changed(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case dict():
            return {
                change(key): inner
                if key in FIXED and isinstance(inner, str)
                else _changed(inner, change)
                for key, inner in cast(JSON, value).items()
            }
        case list():
            return [_changed(inner, change) for inner in cast(list[object], value)]
        case _:
            return value


def _unused(strings: Sequence[str]) -> _Marks:
    """Return characters that no string contains, chosen at random for each request."""
    present = {character for text in strings for character in text if ord(character) >= 0xF0000}
    drawn: list[str] = []
    while len(drawn) < 4:
        character = chr(secrets.choice(_PRIVATE))
        if character not in present and character not in drawn:
            drawn.append(character)
    return _Marks(open=drawn[0], close=drawn[1], edge=drawn[2], fold=drawn[3])


def _unmarked(
    marked: str, marks: _Marks, pattern: "re.Pattern[str]"
) -> tuple[str, list[tuple[int, int]], list[int]]:
    """Return the text without marks, the regions that clients' strings spell, and the edges.

    A template may cut a string at a marker; then template text is between two marks.
    """
    pieces: list[str] = []
    regions: list[tuple[int, int]] = []
    edges: list[int] = []
    opened: int | None = None
    folding: int | None = None
    length = 0
    for piece in re.split(f"([{marks.open}{marks.close}{marks.edge}{marks.fold}])", marked):
        if piece == marks.open:
            opened = length
        elif piece == marks.close:
            if opened is not None and pattern.fullmatch(pieces[-1]):
                regions.append((opened, length))
            opened = None
        elif piece == marks.edge:
            edges.append(length)
        elif piece == marks.fold:
            if folding is not None:
                regions.append((folding, length))
            folding = length if folding is None else None
        elif piece:
            pieces.append(piece)
            length += len(piece)
    return "".join(pieces), regions, edges
