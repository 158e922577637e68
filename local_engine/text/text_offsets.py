"""Positions of a prompt's tokens in the text of an echo."""

from collections.abc import Sequence

LEAD = 16
"""Bytes that a search after a mismatch looks ahead, plus four for each missing byte."""


def offsets(text: str, pieces: Sequence[bytes], controls: Sequence[bool]) -> list[int]:
    """Return the index of the character in which each token starts, in ascending order.

    text:     the echoed text; for a text prompt, the prompt as the client sent it.
    pieces:   the bytes of each token; for a control token, its name.
    controls: which of them are control tokens.

    A token that `text` does not contain, such as a begin token that the tokenizer adds, has the
    position of its successor. Where a tokenizer changes the text (case, Unicode forms), the tokens
    whose bytes do not occur have the position at which the search for them began.
    """
    raw = text.encode("utf-8", "surrogatepass")
    index = _characters(raw)
    at = missing = 0
    found: list[int] = []
    for piece, control in zip(pieces, controls, strict=True):
        start, end = _place(raw, piece, at, 0 if control or not missing else missing * 4 + LEAD)
        if end > start:
            at, missing = end, 0
        elif not control:
            missing += len(piece)
        found.append(index[start])
    return found


def _place(raw: bytes, piece: bytes, at: int, ahead: int) -> tuple[int, int]:
    """Return the piece's first byte and the byte after its last; (at, at) if it is not found.

    A tokenizer that marks words begins a text with a space that the text does not have.
    """
    for one in (piece, piece[1:]) if piece.startswith(b" ") else (piece,):
        start = raw.find(one, at, at + len(one) + ahead) if one else -1
        if start >= 0:
            return start, start + len(one)
    return at, at


def _characters(raw: bytes) -> list[int]:
    """Return the index of the character to which each byte belongs, and at the end their count."""
    index: list[int] = []
    count = -1
    for byte in raw:
        count += byte & 0xC0 != 0x80
        index.append(count)
    return [*index, count + 1]
