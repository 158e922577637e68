"""Ids are UUIDs of version 7: what is sorted by them is sorted by time."""

import time
import uuid

from strowger_gateway.gateway.routing.request_record import new_request_id


def test_every_id_is_a_uuid_of_version_7_with_its_time() -> None:
    before = time.time_ns() // 1_000_000

    made = [new_request_id() for _ in range(2_000)]

    after = time.time_ns() // 1_000_000
    read = [uuid.UUID(one) for one in made]
    assert [str(one) for one in read] == made
    assert {(one.version, one.variant) for one in read} == {(7, uuid.RFC_4122)}
    assert all(before <= one.int >> 80 <= after for one in read)


def test_all_other_bits_of_ids_are_random() -> None:
    """Of 500 draws a bit that is free is as good as never always the same: 2 in 2**500."""
    made = [uuid.UUID(new_request_id()).int for _ in range(500)]

    varied = 0
    for one in made:
        varied |= one ^ made[0]
    free = (0xFFF << 64) | ((1 << 62) - 1)
    assert varied & ((1 << 80) - 1) == free
    assert len(set(made)) == 500
