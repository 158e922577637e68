"""Ids for requests: UUIDv7, so that they sort by time. RFC 9562, section 5.7."""

import random
import re
import time

_random = random.SystemRandom().getrandbits(128)
_generator = random.Random(_random)

_SANE = re.compile(r"[\x21-\x7e]{1,128}")


def uuid7() -> str:
    """48 bits of Unix milliseconds, version, 12 random bits, variant, 62 random bits."""
    stamp, noise = time.time_ns() // 1_000_000, _generator.getrandbits(74)
    return (
        f"{stamp >> 16 & 0xFFFF_FFFF:08x}-{stamp & 0xFFFF:04x}-{0x7000 | noise >> 62:04x}"
        f"-{0x8000 | noise >> 48 & 0x3FFF:04x}-{noise & 0xFFFF_FFFF_FFFF:012x}"
    )


def sane(request_id: str) -> bool:
    """Whether a client's own x-request-id may be echoed: visible ASCII, at most 128 of it."""
    return _SANE.fullmatch(request_id) is not None
