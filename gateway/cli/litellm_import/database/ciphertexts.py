"""Decrypt what LiteLLM encrypts in its database: credentials of models, environment variables.

Two forms, both under the SHA-256 of LITELLM_SALT_KEY, or of the master key where that is not set:
`v2:gcm:` and AES-256-GCM, or XSalsa20-Poly1305 as NaCl's secretbox.
https://docs.litellm.ai/docs/proxy/prod, https://cr.yp.to/snuffle/xsalsa-20081128.pdf
"""

import base64
import binascii
import struct
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.poly1305 import Poly1305

_GCM: Final = "v2:gcm:"
_GCM_NONCE: Final = 12
_NONCE, _TAG, _BLOCK = 24, 16, 64
_SIGMA: Final = struct.unpack("<4I", b"expand 32-byte k")
_WORD: Final = 0xFFFFFFFF
_QUARTERS: Final = (
    (0, 4, 8, 12),
    (5, 9, 13, 1),
    (10, 14, 2, 6),
    (15, 3, 7, 11),
    (0, 1, 2, 3),
    (5, 6, 7, 4),
    (10, 11, 8, 9),
    (15, 12, 13, 14),
)


def decrypted(text: str, salt_key: str) -> str | None:
    """Return the plaintext; `None` if it is not a ciphertext under this key."""
    key = sha256(salt_key.encode()).digest()
    try:
        if text.startswith(_GCM):
            sealed = base64.urlsafe_b64decode(text.removeprefix(_GCM))
            return AESGCM(key).decrypt(sealed[:_GCM_NONCE], sealed[_GCM_NONCE:], None).decode()
        sealed = base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)
        return None if len(sealed) < _NONCE + _TAG else _opened(sealed, key).decode()
    except (ValueError, binascii.Error, InvalidTag, InvalidSignature):
        return None


def looks_encrypted(text: str) -> bool:
    """Return whether a text has the form of a ciphertext; a name or an address has not."""
    if text.startswith(_GCM):
        return True
    try:
        sealed = base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)
    except (ValueError, binascii.Error):
        return False
    return len(sealed) >= _NONCE + _TAG


def _opened(sealed: bytes, key: bytes) -> bytes:
    """Open a secretbox. Raises InvalidSignature if it was changed, or is under another key."""
    nonce, tag, body = sealed[:_NONCE], sealed[_NONCE : _NONCE + _TAG], sealed[_NONCE + _TAG :]
    inner = _hsalsa20(key, nonce[:16])
    first = _salsa20(inner, nonce[16:], 0)
    mac = Poly1305(first[:32])
    mac.update(body)
    mac.verify(tag)
    stream = first[32:]
    for block in range(1, (len(body) + 32) // _BLOCK + 1):
        stream += _salsa20(inner, nonce[16:], block)
    return bytes(one ^ other for one, other in zip(body, stream, strict=False))


def _hsalsa20(key: bytes, nonce: bytes) -> bytes:
    state = _rounds(_state(key, struct.unpack("<4I", nonce)))
    return struct.pack("<8I", *(state[place] for place in (0, 5, 10, 15, 6, 7, 8, 9)))


def _salsa20(key: bytes, nonce: bytes, block: int) -> bytes:
    counter = (block & _WORD, block >> 32)
    begin = _state(key, (*struct.unpack("<2I", nonce), *counter))
    mixed = _rounds(begin)
    return struct.pack(
        "<16I", *((one + other) & _WORD for one, other in zip(begin, mixed, strict=True))
    )


def _state(key: bytes, rest: tuple[int, ...]) -> list[int]:
    words = struct.unpack("<8I", key)
    first, second, third, fourth = _SIGMA
    return [first, *words[:4], second, *rest, third, *words[4:], fourth]


def _rounds(begin: list[int]) -> list[int]:
    """Salsa20's twenty rounds. https://cr.yp.to/snuffle/spec.pdf"""
    words = list(begin)
    for _ in range(10):
        for a, b, c, d in _QUARTERS:
            words[b] ^= _turned(words[a] + words[d], 7)
            words[c] ^= _turned(words[b] + words[a], 9)
            words[d] ^= _turned(words[c] + words[b], 13)
            words[a] ^= _turned(words[d] + words[c], 18)
    return words


def _turned(word: int, by: int) -> int:
    word &= _WORD
    return ((word << by) | (word >> (32 - by))) & _WORD
