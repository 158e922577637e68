"""The bytes of a single token of a vocabulary. No torch here: the gateway uses it too."""

from functools import lru_cache

import msgspec


class TokenBytes:
    """Converts one tokenizer's tokens to bytes."""

    def __init__(self, description: str) -> None:
        """description: the content of a tokenizer.json."""
        self._byte_level = _mentions(description, "ByteLevel")

    def of(self, token: str) -> bytes:
        """Return the bytes that a token adds to a text; not for special tokens."""
        if self._byte_level:
            table = byte_table()
            if all(character in table for character in token):
                return bytes(table[character] for character in token)
            return token.encode()
        if (byte := fallback_byte(token)) is not None:
            return bytes([byte])
        return token.replace("▁", " ").encode()

    def one(self, byte: int) -> str:
        """Return the vocabulary's spelling of a single byte, if it has one."""
        if self._byte_level:
            return next(character for character, value in byte_table().items() if value == byte)
        return f"<0x{byte:02X}>"


def fallback_byte(token: str) -> int | None:
    """Return the byte of `<0xNN>`, or `None` for every other token."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return int(token[3:5], 16)
        except ValueError:
            return None
    return None


def _mentions(description: str, kind: str) -> bool:
    """True if the tokenizer's decoder is, or contains, one of this kind."""
    decoder = msgspec.json.decode(description, type=_Description).decoder
    return f'"{kind}"'.encode() in bytes(decoder)


class _Description(msgspec.Struct, frozen=True, kw_only=True):
    decoder: msgspec.Raw = msgspec.Raw()


@lru_cache(maxsize=1)
def byte_table() -> dict[str, int]:
    """Byte-level BPE's characters for bytes: printable ones stand for themselves, the others
    follow from U+0100 on (https://github.com/openai/gpt-2/blob/master/src/encoder.py)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + place): byte for place, byte in enumerate(others)})
    return table
