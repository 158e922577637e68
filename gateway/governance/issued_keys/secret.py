"""The format of an issued API key: `sk-strw-`, 256 random bits, and a checksum, in base62.

Secret scanners find it by PATTERN, and discard what only looks like a key by its checksum: the
CRC-32 of the random part, as in GitHub's tokens.
https://github.blog/engineering/behind-githubs-new-authentication-token-formats/
"""

import os
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final, Literal
from zlib import crc32

PREFIX: Final = "sk-strw-"
PATTERN: Final = r"\bsk-strw-[0-9A-Za-z]{49}\b"
ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
RANDOM_BYTES: Final = 32
RANDOM_CHARS: Final = 43
CHECKSUM_CHARS: Final = 6
LAST: Final = 4
"""Characters at the end that are stored and shown, by which people recognise a key."""

_WHOLE: Final = re.compile(r"sk-strw-[0-9A-Za-z]{49}")


def new_secret(random: Callable[[int], bytes] = os.urandom) -> str:
    """random: returns so many random bytes."""
    body = base62(int.from_bytes(random(RANDOM_BYTES), "big"), RANDOM_CHARS)
    return PREFIX + body + checksum(body)


def checksum(body: str) -> str:
    """Return the checksum of the random part."""
    return base62(crc32(body.encode("ascii")), CHECKSUM_CHARS)


def base62(number: int, width: int) -> str:
    """Return a number with leading zeros. Raises ValueError if it needs more characters."""
    digits: list[str] = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(ALPHABET[digit])
    if number:
        raise ValueError(f"the number needs more than {width} characters")
    return "".join(reversed(digits))


def digest_of(secret: str) -> str:
    """Return what is stored in place of a secret: its SHA-256 in hexadecimal.

    A slow hash would protect secrets that can be guessed; 256 random bits cannot be.
    """
    return sha256(secret.encode()).hexdigest()


def judged(sent: str) -> Literal["issued", "damaged", "other"]:
    """Return whether a text has the format of an issued key, or has it but for the checksum.

    It says nothing about whether the key exists.
    """
    if not sent.startswith(PREFIX):
        return "other"
    if _WHOLE.fullmatch(sent) is None:
        return "damaged"
    body = sent[len(PREFIX) : -CHECKSUM_CHARS]
    return "issued" if checksum(body) == sent[-CHECKSUM_CHARS:] else "damaged"
