"""The format of issued keys: what secret scanners match, and the checksum."""

import re

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.governance.issued_keys.secret import (
    ALPHABET,
    PATTERN,
    PREFIX,
    RANDOM_BYTES,
    base62,
    checksum,
    digest_of,
    judged,
    new_secret,
)

VECTOR = "sk-strw-003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf1Yo7hP"
"""Of the bytes 0 to 31, made with bc (base 62) and gzip (CRC-32 of the 43 characters)."""

VECTOR_DIGEST = "22e441696b82a973d1139c07f0b0ecb22096708e5cccd4d29ae3650f5718fda9"
"""By sha256sum."""

RANDOM = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


def crc32_by_bits(data: bytes) -> int:
    """https://www.rfc-editor.org/rfc/rfc1952#section-8"""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def number_of(text: str) -> int:
    value = 0
    for character in text:
        value = value * 62 + ALPHABET.index(character)
    return value


def test_a_key_is_the_one_that_other_tools_compute() -> None:
    made = new_secret(lambda size: bytes(range(size)))

    assert made == VECTOR
    assert digest_of(made) == VECTOR_DIGEST
    assert judged(made) == "issued"


@given(RANDOM)
def test_every_key_matches_the_documented_pattern_and_its_checksum(random: bytes) -> None:
    made = new_secret(lambda _: random)
    body, check = made[len(PREFIX) : -6], made[-6:]

    assert re.fullmatch(PATTERN, made)
    assert re.findall(PATTERN, f'key = "{made}";') == [made]
    assert number_of(body) == int.from_bytes(random, "big")
    assert number_of(check) == crc32_by_bits(body.encode())
    assert judged(made) == "issued"


@given(RANDOM, st.integers(0, 48), st.sampled_from(ALPHABET))
def test_a_key_with_one_wrong_character_is_damaged(random: bytes, place: int, wrong: str) -> None:
    made = new_secret(lambda _: random)
    at = len(PREFIX) + place
    changed = made[:at] + wrong + made[at + 1 :]

    assert judged(changed) == ("issued" if changed == made else "damaged")
    assert judged(made[:-1]) == judged(f"{made}0") == "damaged"


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    assert judged(text) != "issued"
    assert judged(text) == ("damaged" if text.startswith(PREFIX) else "other")


@given(st.integers(0, 62**6 - 1))
def test_base62_keeps_its_width_and_its_order(number: int) -> None:
    text = base62(number, 6)

    assert (len(text), number_of(text)) == (6, number)
    assert (text < base62(62**6 - 1, 6)) == (number < 62**6 - 1)


def test_two_keys_differ() -> None:
    assert len({new_secret() for _ in range(1000)}) == 1000
    assert checksum("") == "000000"
