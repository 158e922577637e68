"""Frames do not depend on how the network splits the bytes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.base import STRAY
from strowger_gateway.adapters.framing import FRAMING, MAX_FRAME, Frame, LinesParser, SSEParser
from strowger_gateway.schemas.errors import UpstreamBroken

EVERYTHING = (
    b'\xef\xbb\xbf: hello\r\n\r\nevent: start\r\ndata: {"a":1}\r\n\r\n'
    b"data:no space\n\ndata: two\ndata: lines\n\nid: 7\nretry: 10\nfoo: bar\n\n"
    b"data: after cr\r\rdata\n\ndata: caf\xc3\xa9\n\n\n\n"
    b'{"error":\n  {"message": "late"}}\n\ndata: [DONE]\n\n'
)
FRAMES: list[Frame] = [
    ("start", b'{"a":1}'),
    ("", b"no space"),
    ("", b"two\nlines"),
    ("", b"after cr"),
    ("", b""),
    ("", "café".encode()),
    (STRAY, b'{"error":\n  {"message": "late"}}'),
    ("", b"[DONE]"),
]


def sse(*pieces: bytes) -> list[Frame]:
    parser = SSEParser()
    frames = [frame for piece in pieces for frame in parser.feed(piece)]
    return frames + parser.close()


def test_every_feature_of_the_standard_is_read() -> None:
    assert sse(EVERYTHING) == FRAMES


def test_two_pieces_cut_anywhere_give_the_same_frames() -> None:
    for cut in range(len(EVERYTHING) + 1):
        assert sse(EVERYTHING[:cut], EVERYTHING[cut:]) == FRAMES, cut


def test_single_bytes_give_the_same_frames() -> None:
    assert sse(*(bytes([byte]) for byte in EVERYTHING)) == FRAMES


@given(
    st.lists(
        st.sampled_from(
            [b"data: x", b"data:", b"event: e", b":c", b"{", b"id", b"a b", b"error: e"]
        )
    ),
    st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=1),
    st.sets(st.integers(0, 60)),
)
def test_any_lines_cut_anywhere_give_the_same_frames(
    lines: list[bytes], ends: list[bytes], cuts: set[int]
) -> None:
    body = b"".join(line + ends[i % len(ends)] * (1 + i % 2) for i, line in enumerate(lines))
    edges = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]

    pieces = [body[a:b] for a, b in pairwise(edges)]

    assert sse(*pieces) == sse(body)


def test_a_comment_is_not_a_frame() -> None:
    assert sse(b": OPENROUTER PROCESSING\n\n: keep-alive\n\n") == []


@given(
    st.sampled_from([b"", b"data: x\n", b"event: e\n", b"event: e\ndata: x\n", b"{\n", b"da"]),
    st.sampled_from([b"\n", b"\n\n", b"\r\n\r\n", b"\n\n\n"]),
    st.sampled_from([b"data: y\n\n", b": c\n\ndata: y\n\n", b"\ndata: y\n\n"]),
)
def test_many_comments_change_nothing_around_them(before: bytes, end: bytes, after: bytes) -> None:
    body = before + (b": alive" + end) * 40 + after

    assert sse(body) == sse(*(bytes([byte]) for byte in body))


def test_an_event_without_data_is_not_a_frame() -> None:
    assert sse(b"event: ping\n\ndata: x\n\n") == [("", b"x")]


def test_a_bare_json_error_comes_out_as_stray_at_the_end() -> None:
    assert sse(b'{"error":"boom","error_type":"x"}') == [
        (STRAY, b'{"error":"boom","error_type":"x"}')
    ]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\n", b""])
def test_an_error_field_comes_out_as_stray(end: bytes) -> None:
    body = b'data: x\n\nerror: {"code":500,"message":"out of memory"}' + end

    assert sse(body) == [("", b"x"), (STRAY, b'{"code":500,"message":"out of memory"}')]


def test_an_indented_json_error_comes_out_as_one_stray_frame() -> None:
    body = b'{\n  "error": {\n    "message": "boom"\n  }\n}\n'

    assert sse(body) == [(STRAY, body.rstrip())]


def test_plain_text_instead_of_a_stream_comes_out_as_stray() -> None:
    assert sse(b"upstream connect error or disconnect\n") == [
        (STRAY, b"upstream connect error or disconnect")
    ]


def test_an_unknown_field_is_ignored() -> None:
    assert sse(b"foo: bar\nbaz\ndata: x\n\n") == [("", b"x")]


@pytest.mark.parametrize("end", [b"data: [DONE]", b"data: [DONE]\n"])
def test_a_last_frame_without_its_blank_line_is_delivered(end: bytes) -> None:
    assert sse(b"data: x\n\n" + end) == [("", b"x"), ("", b"[DONE]")]


def test_a_last_line_cut_in_the_middle_is_dropped() -> None:
    assert sse(b'data: x\n\ndata: {"choi') == [("", b"x")]
    assert sse(b"data: x\n\ndat") == [("", b"x")]
    assert sse(b"data: x\n\ndata:") == [("", b"x")]


@pytest.mark.parametrize("framing", ["sse", "ndjson"])
def test_a_frame_over_the_limit_is_refused_however_it_is_cut(framing: str) -> None:
    cls = {"sse": SSEParser, "ndjson": LinesParser}[framing]
    body = b"data: " + b"x" * 200 + b"\n"

    with pytest.raises(UpstreamBroken, match=r"acme: a .* is over 100 bytes"):
        cls("acme", 100).feed(body[:150])
    parser = cls("acme", 100)
    for byte in body[:100]:
        parser.feed(bytes([byte]))
    with pytest.raises(UpstreamBroken, match="is over 100 bytes"):
        parser.feed(body[100:101])


def test_many_lines_of_data_count_towards_one_limit() -> None:
    parser = SSEParser("acme", 100)

    for _ in range(8):
        parser.feed(b"data: 12345\n")

    with pytest.raises(UpstreamBroken, match="is over 100 bytes"):
        parser.feed(b"data: 12345\n")


def test_a_complete_frame_over_the_limit_in_one_read_is_refused() -> None:
    with pytest.raises(UpstreamBroken, match="is over 100 bytes"):
        SSEParser("acme", 100).feed(b"data: " + b"x" * 200 + b"\n\n")


def test_json_lines_are_cut_only_at_line_ends() -> None:
    body = b'{"a":1}\r\n\n{"b":"\xc3\xa9"}\n{"c":3}'
    whole = [("", b'{"a":1}'), ("", b'{"b":"\xc3\xa9"}'), ("", b'{"c":3}')]

    for cut in range(len(body) + 1):
        parser = LinesParser()
        frames = [*parser.feed(body[:cut]), *parser.feed(body[cut:]), *parser.close()]
        assert frames == whole


def test_a_parser_of_the_table_starts_its_errors_with_the_provider() -> None:
    parser = FRAMING["sse"]("acme", MAX_FRAME)

    with pytest.raises(UpstreamBroken, match=r"^acme: "):
        parser.feed(b"x " * (9 * 1024 * 1024))
