"""AWS's event stream is read as botocore reads it, however it is cut, and never misread."""

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Protocol, cast
from zlib import crc32

import pytest
from botocore import eventstream
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.eventstream import EventStreamParser
from strowger_gateway.adapters.framing import FRAMING, MAX_FRAME, Frame
from strowger_gateway.schemas.errors import UpstreamBroken
from tests.adapters.traffic import RECORDINGS
from tests.stand_ins.bedrock_server import ANSWER_STREAM, error, event, exception, message, text

BODY = b"".join(ANSWER_STREAM)
RECORDED = sorted(RECORDINGS.glob("bedrock/*/response.bin"))

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20)
others = st.one_of(
    st.sampled_from([b"\x00", b"\x01"]),
    st.binary(min_size=1, max_size=1).map(lambda data: b"\x02" + data),
    st.binary(min_size=2, max_size=2).map(lambda data: b"\x03" + data),
    st.binary(min_size=4, max_size=4).map(lambda data: b"\x04" + data),
    st.binary(min_size=8, max_size=8).map(lambda data: b"\x05" + data),
    st.binary(max_size=30).map(lambda data: b"\x06" + struct.pack(">H", len(data)) + data),
    st.binary(min_size=8, max_size=8).map(lambda data: b"\x08" + data),
    st.binary(min_size=16, max_size=16).map(lambda data: b"\x09" + data),
)
"""Values of headers that no frame's name is read from."""


def named(kind: str, payload: bytes, more: list[bytes]) -> bytes:
    headers = [(f"x{at}", value) for at, value in enumerate(more)]
    own = [(":event-type", text(kind)), (":message-type", text("event"))]
    return message(headers + own, payload)


messages = st.builds(named, names, st.binary(max_size=50), st.lists(others, max_size=4))


class Buffer(Protocol):
    def add_data(self, data: bytes) -> None: ...
    def __iter__(self) -> "Iterator[Message]": ...


class Message(Protocol):
    headers: dict[str, object]
    payload: bytes


def read(*pieces: bytes, limit: int = 1 << 20) -> list[Frame]:
    parser = EventStreamParser("acme", limit)
    frames = [frame for piece in pieces for frame in parser.feed(piece)]
    return frames + parser.close()


def oracle(body: bytes) -> list[Frame]:
    """Read the stream with botocore."""
    buffer = cast("Buffer", eventstream.EventStreamBuffer())
    buffer.add_data(body)
    return [(str(one.headers[":event-type"]), bytes(one.payload)) for one in buffer]


@given(st.lists(messages, max_size=5), st.sets(st.integers(1, 400), max_size=8))
def test_any_messages_cut_anywhere_are_what_botocore_reads(
    bodies: list[bytes], at: set[int]
) -> None:
    body = b"".join(bodies)
    edges = [0, *sorted(place for place in at if place < len(body)), len(body)]

    frames = read(*[body[a:b] for a, b in pairwise(edges)])

    assert frames == oracle(body)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.parent.name)
def test_recorded_streams_are_what_botocore_reads(file: Path) -> None:
    body = file.read_bytes()
    if "broken" in file.parent.name:
        with pytest.raises(UpstreamBroken, match="acme: not an event stream"):
            read(body)
        return

    assert read(body) == oracle(body)


def test_single_bytes_give_the_same_frames() -> None:
    assert read(*(bytes([byte]) for byte in BODY)) == read(BODY) == oracle(BODY)


def test_failures_are_distinguished_from_events_by_their_names() -> None:
    body = (
        event("messageStart", {})
        + exception("throttlingException", {"message": "slow"})
        + error("InternalError", "it broke")
    )

    (_, _), thrown, other = read(body)

    assert thrown == ("exception:throttlingException", b'{"message": "slow"}')
    assert other == ("error:InternalError", b'{"message":"it broke"}')


@pytest.mark.parametrize("place", range(len(ANSWER_STREAM[0])))
def test_a_changed_byte_is_an_error_and_never_a_frame(place: int) -> None:
    first = ANSWER_STREAM[0]
    changed = first[:place] + bytes([first[place] ^ 1]) + first[place + 1 :]

    with pytest.raises(UpstreamBroken, match="acme: not an event stream: "):
        read(changed + BODY)


def test_a_message_over_the_limit_is_refused_before_it_has_come() -> None:
    head = struct.pack(">II", 101, 0)

    with pytest.raises(UpstreamBroken, match="a message is over 100 bytes"):
        read(head + struct.pack(">I", crc32(head)), limit=100)


def test_headers_that_reach_beyond_their_message_are_refused() -> None:
    head = struct.pack(">II", 20, 5)

    with pytest.raises(UpstreamBroken, match="a message of 20 bytes declares 5 bytes of headers"):
        read(head + struct.pack(">I", crc32(head)))


@pytest.mark.parametrize(
    "headers",
    [
        [("a", b"\x0b")],
        [("a", b"\x07\x00\x09x")],
        [("a", b"\x07\x00")],
        [("a", b"\x05\x00")],
        [("a", text("x")[:-1] + b"\xff")],
    ],
    ids=["unknown-type", "cut-text", "cut-length", "cut-integer", "no-utf8"],
)
def test_headers_that_cannot_be_read_are_an_error(headers: list[tuple[str, bytes]]) -> None:
    with pytest.raises(UpstreamBroken, match="headers cannot be read"):
        read(message(headers, b"{}"))


def test_a_message_of_an_unknown_type_is_an_error() -> None:
    with pytest.raises(UpstreamBroken, match="the unknown type 'riddle'"):
        read(message([(":message-type", text("riddle"))], b"{}"))


def test_a_body_that_ends_inside_a_message_is_an_error() -> None:
    with pytest.raises(UpstreamBroken, match="ended inside a message"):
        read(BODY[:-1])


def test_framing_knows_it_by_name() -> None:
    assert FRAMING["eventstream"]("acme", MAX_FRAME).feed(BODY) == oracle(BODY)
