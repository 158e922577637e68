"""Ids for requests: UUIDv7, so that they sort by time. RFC 9562, section 5.7."""

import random
import re
import time

_random = random.SystemRandom().getrandbits(128)
_generator = random.Random(_random)

_SANE = re.compile(r"[\x21-\x7e]{1,128}")


def uuid7() -> str:
    """48 bits of Unix milliseconds, version, 12 random bits, variant, 62 random bits."""
    stamp = time.time_ns() // 1_000_000
    noise = _generator.getrandbits(74)
    value = (stamp & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | (noise >> 62) << 64
    value |= 0b10 << 62 | noise & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def sane(request_id: str) -> bool:
    """Whether a client's own x-request-id may be echoed: visible ASCII, at most 128 of it."""
    return _SANE.fullmatch(request_id) is not None
