"""Request ids: UUIDv7, so that they sort by time. RFC 9562, section 5.7."""

import random
import re
import time

_random = random.SystemRandom().getrandbits(128)
_generator = random.Random(_random)

_MARKS = 0x7 << 76 | 0b10 << 62
"""Version and variant."""
_NOISE = 0xFFF << 64 | (1 << 62) - 1

_SANE = re.compile(r"[\x21-\x7e]{1,128}")


def uuid7() -> str:
    """Return 48 bits of Unix milliseconds, version, 12 random bits, variant, 62 random bits."""
    noise = _generator.getrandbits(76) & _NOISE
    number = time.time_ns() // 1_000_000 << 80 | _MARKS | noise
    digits = number.to_bytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def sane(request_id: str) -> bool:
    """Return whether a client's x-request-id may be echoed: 1 to 128 visible ASCII characters."""
    return _SANE.fullmatch(request_id) is not None
