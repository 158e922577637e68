"""A conversation as a text, which any model can summarise, and its pieces.

A summary is asked of a transcript and not of the conversation itself: then no backend needs tools,
roles in turn or proofs for it, a model does not go on with the conversation instead, and a
conversation that is too long for the model's context can be cut anywhere.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.surfaces.token_estimate.estimate import text_tokens
from strowger_gateway.schemas.messages import (
    AudioPart,
    ImagePart,
    Message,
    OpaquePart,
    TextPart,
    thinking_of,
)

INSTRUCTIONS: Final = frozenset({"system", "developer"})

PICTURES: Final = "pictures_not_summarised"
SHORTENED: Final = "results_shortened"
CUT: Final = "summary_cut"
"""What a transcript, or its summary, lacks of a conversation, as repairs are named."""

WRITTEN: Final = frozenset(
    """
    apply_patch_call apply_patch_call_output code_interpreter_call file_search_call local_shell_call
    local_shell_call_output mcp_approval_request mcp_approval_response mcp_call program
    program_output shell_call shell_call_output tool_search_call tool_search_output web_search_call
    """.split()  # noqa: SIM905  as many quoted strings are harder to read
)
"""Items of the Responses API that ran at the client or at a vendor and are text, in their JSON."""

LONGEST: Final = 65_536
SHORTEST: Final = 512
"""Characters of one result, or of one call's arguments: at first, and when room is least."""

_CUT: Final = "\n[… {left_out} characters are left out …]\n"
_BETWEEN: Final = "\n\n"
_LIKE_LABEL: Final = re.compile(
    r"^(?=\[(?:User|Assistant|The assistant |Result of ))", re.MULTILINE
)
_DATA: Final = re.compile(r'data:[^"\s]{64,}')
_QUOTED: Final = "> "
"""Before a line of a text that looks like the label of a turn: no result can speak as the user."""


class Transcript(Struct, frozen=True, kw_only=True):
    """What was said and done, turn by turn; a call and its results are one turn.

    instructions: the system messages, which are not part of it. lacks: what it leaves out.
    """

    instructions: str
    turns: tuple[str, ...]
    lacks: tuple[str, ...] = ()

    @property
    def tokens(self) -> float:
        return sum(map(text_tokens, self.turns))


def transcript_of(messages: Sequence[Message], longest: int = LONGEST) -> Transcript:
    """longest: characters of a result, or of a call's arguments; of more, the middle is cut."""
    said = [one for one in messages if one.role in INSTRUCTIONS]
    writer = _Writer(longest)
    turns: list[list[str]] = []
    for one in messages:
        if one.role in INSTRUCTIONS:
            continue
        if one.role == "tool" and turns:
            turns[-1] += writer.lines(one)
        else:
            turns.append([*writer.lines(one)])
    return Transcript(
        instructions=_BETWEEN.join(filter(None, map(writer.text, said))),
        turns=tuple([_BETWEEN.join(lines) for lines in turns if lines]),
        lacks=tuple(writer.lacks),
    )


def fitting_transcript(messages: Sequence[Message], most: float) -> Transcript:
    """Return the transcript, with results so short that it has about `most` tokens, if possible."""
    longest = LONGEST
    found = transcript_of(messages, longest)
    while found.tokens > most and longest > SHORTEST:
        longest //= 4
        found = transcript_of(messages, longest)
    return found


def pieces_of(turns: Iterable[str], most: float) -> list[str]:
    """Cut a transcript into pieces of at most `most` tokens, between turns where possible."""
    pieces: list[str] = []
    piece, size = list[str](), 0.0
    for turn in _cut(turns, most):
        tokens = text_tokens(turn)
        if piece and size + tokens > most:
            pieces.append(_BETWEEN.join(piece))
            piece, size = [], 0.0
        piece.append(turn)
        size += tokens
    if piece:
        pieces.append(_BETWEEN.join(piece))
    return pieces


def halves(piece: str) -> list[str]:
    """Cut a piece in two, between turns if there is a place near its middle."""
    middle = len(piece) // 2
    place = piece.rfind(_BETWEEN, len(piece) // 4, middle)
    at = middle if place < 0 else place + len(_BETWEEN)
    return [piece[:at], piece[at:]]


def shortened(text: str, longest: int) -> str:
    """Cut the middle out of a text that is longer."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return text[:half] + _CUT.format(left_out=len(text) - 2 * half) + text[-half:]


def _cut(turns: Iterable[str], most: float) -> Iterator[str]:
    for turn in turns:
        tokens = text_tokens(turn)
        if tokens <= most:
            yield turn
            continue
        size = max(1, int(len(turn) * most / tokens))
        yield from (turn[at : at + size] for at in range(0, len(turn), size))


def _quoted(text: str) -> str:
    return _LIKE_LABEL.sub(_QUOTED, text) if "[" in text else text


class _Writer:
    """Writes messages as text. lacks: what it could not write, each once."""

    def __init__(self, longest: int) -> None:
        self.lacks: dict[str, None] = {}
        self._longest = longest

    def lines(self, one: Message) -> Iterator[str]:
        text = _quoted(self.text(one))
        if one.role == "tool":
            yield f"[Result of {one.tool_call_id or 'a call'}]\n{self._short(text)}"
            return
        if one.role == "assistant":
            thinking = thinking_of(one)
            if thinking and not text:
                yield f"[The assistant thinks]\n{self._short(_quoted(thinking))}"
            if text:
                yield f"[Assistant]\n{text}"
            for call in one.tool_calls:
                arguments = self._short(_quoted(call.arguments))
                yield f"[The assistant calls {call.name}, as {call.id}]\n{arguments}"
            return
        yield f"[User]\n{text}"

    def text(self, one: Message) -> str:
        content = one.content
        if content is None or isinstance(content, str):
            return content or ""
        return "\n".join(filter(None, map(self._part, content)))

    def _part(self, part: TextPart | ImagePart | AudioPart | OpaquePart) -> str:
        match part:
            case TextPart():
                return part.text
            case ImagePart():
                self.lacks[PICTURES] = None
                return "[a picture, which is not in this transcript]"
            case AudioPart():
                self.lacks[PICTURES] = None
                return "[a recording, which is not in this transcript]"
            case OpaquePart() if part.type in WRITTEN:
                said = _DATA.sub("data:…", bytes(part.raw).decode("utf-8", "replace"))
                return f"[{part.type}]\n{self._short(said)}"
            case OpaquePart():
                self.lacks[PICTURES] = None
                return f"[{part.type}, which is not in this transcript]"

    def _short(self, text: str) -> str:
        if len(text) > self._longest:
            self.lacks[SHORTENED] = None
        return shortened(text, self._longest)
