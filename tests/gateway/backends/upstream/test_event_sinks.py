"""A sink gets the same events as a caller who waits for each batch."""

import json
from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.framing import Frame, SSEParser
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.gateway.backends.upstream.event_reader import EventReader
from strowger_gateway.gateway.backends.upstream.patience import Patience
from strowger_gateway.schemas.errors import UpstreamError
from strowger_gateway.schemas.events import Event, TextDelta

ENDPOINT = Endpoint(name="up", base_url="http://up.test/v1")
NEVER = float("inf")
AGES = Patience(
    silence_s=1e9, first_s=1e9, between_s=1e9, later_silence_s=1e9, whole_s=1e9, short_s=1e9
)


def chunk(delta: dict[str, object], **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


def worded(text: str) -> bytes:
    """A frame as servers send it: compact, and its text not in ASCII only."""
    return (
        b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":%b},'
        b'"logprobs":null,"finish_reason":null}]}\n\n' % msgspec.json.encode(text)
    )


WORDS = st.builds(worded, st.text(max_size=6) | st.sampled_from(['"', "\\", "}", "\u2028", "\r\n"]))
"""Frames that differ in nothing but their text."""

TRICKS = st.sampled_from(
    [
        worded("a").replace(b'"a"', b'"a","content":"b"'),
        worded("a").replace(b'"a"', b'"a","content" :"b"'),
        worded("a").replace(b'"a"', b'"a","c\\u006fntent":"b"'),
        worded("a").replace(b'"a"', b'""'),
        worded("a").replace(b'"a"', b'"'),
        worded("a").replace(b'"a"', b"null"),
        worded("a").replace(b'"a"', b' "a" '),
        worded("a").replace(b'"a"', b'"a"\n'),
        worded("a").replace(b'"a"', b'"\n"'),
        worded("a").replace(b'"a"', b'"\xff"'),
        worded("a").replace(b'"a"', b'"\\ud800"'),
        worded("a").replace(b'"c"', b'"content"'),
        worded("a").replace(b'"index":0', b'"index":1'),
        worded("a").replace(b"}\n", b',"usage":{"prompt_tokens":1,"completion_tokens":2}}\n'),
        worded("a").replace(b"}\n", b',"usage":{"prompt_tokens":1,"completion_tokens":3}}\n'),
        worded("a").replace(b"}\n", b',"obfuscation":"x"}\n'),
        worded("a")[:-1],
        worded("a") + worded("b"),
        b"event: error\n" + worded("a"),
        b"data: ",
        b"\r\n",
    ]
)
FRAMES = st.sampled_from(
    [
        chunk({"content": "text "}),
        chunk({"content": "ünïcode"}),
        chunk({"content": ""}),
        chunk({"reasoning_content": "hm"}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
        chunk({"content": "odd", "unknown": 1}),
        chunk({"content": "last"}, finish_reason="stop"),
        chunk({"content": "known", "refusal": None, "tool_calls": None}),
        chunk({"content": "likely"}, logprobs={"content": [{"token": "a", "logprob": -1.0}]}),
        b": a comment\n\n",
        b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
        b'data: {"system_fingerprint":"f","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
        b'data: {"error":{"message":"overloaded"}}\n\n',
        b"data: [DONE]\n\n",
    ]
)


def reader(parser: SSEParser | None = None) -> EventReader:
    decoder = OpenAIDecoder(ENDPOINT, stream=True)
    return EventReader(
        parser or SSEParser("up"), decoder, decoder, "up", started=0, patience=AGES, over=NEVER
    )


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({place % (len(body) + 1) for place in places} | {len(body)})
    starts = [0, *ends]
    return [body[start:end] for start, end in zip(starts, ends, strict=False) if start < end]


def pulled(pieces: list[bytes]) -> tuple[list[Event], str]:
    events: list[Event] = []
    one = reader()
    try:
        for piece in pieces:
            events += one.read(piece)
            if one.ended:
                break
    except UpstreamError as error:
        return [*events, *one.partial], str(error)
    return events, ""


class Sink:
    """Takes events, and is full each third time."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._taken = 0

    def __call__(self, batch: Sequence[Event]) -> bool:
        self.events.extend(batch)
        self._taken += 1
        return self._taken % 3 != 0


class TextTaker(Sink):
    """The same, and takes text without an event."""

    def text(self, text: str, index: int) -> bool:
        return self([TextDelta(text=text, index=index)])


def pushed(pieces: list[bytes], kind: type[Sink] = Sink) -> tuple[list[Event], str]:
    one, sink = reader(), kind()
    events = sink.events
    one.use(sink)
    try:
        for piece in pieces:
            more = one.push(piece)
            assert (more is None) == (one.ended or one.sink_is_full)
            if one.ended:
                break
            one.use(sink)
    except UpstreamError as error:
        return events, str(error)
    return events, ""


@given(st.lists(FRAMES, max_size=12), st.lists(st.integers(0, 2000), max_size=12))
def test_whatever_arrives_in_whatever_pieces(frames: list[bytes], places: list[int]) -> None:
    pieces = cut(chunk({"role": "assistant", "content": "begun"}) + b"".join(frames), places)

    assert pushed(pieces) == pulled(pieces)


@given(st.lists(WORDS | WORDS | WORDS | TRICKS | FRAMES, max_size=16))
def test_frames_that_differ_in_nothing_but_text_are_read_like_all_others(
    frames: list[bytes],
) -> None:
    pieces = [worded("begun"), worded("going"), *frames]

    expected = pulled(pieces)

    assert pushed(pieces) == pushed(pieces, TextTaker) == expected


@given(st.lists(WORDS | TRICKS, max_size=12), st.lists(st.integers(0, 4000), max_size=12))
def test_whatever_arrives_in_whatever_pieces_as_text(
    frames: list[bytes], places: list[int]
) -> None:
    body = b"".join([worded("going")] * 3 + frames)
    pieces = [worded("begun"), *cut(body, places)]

    assert pushed(pieces, TextTaker) == pulled(pieces)


def test_a_frame_like_the_one_before_needs_no_parser() -> None:
    parser, sink = CountingParser("up"), TextTaker()
    one = reader(parser)
    one.use(sink)

    for word in ("a", "b", "ü", '"c"', "d"):
        one.push(worded(word))
    one.push(chunk({"content": "e"}))

    assert [event.text for event in sink.events if type(event) is TextDelta] == [
        "a",
        "b",
        "ü",
        '"c"',
        "d",
        "e",
    ]
    assert parser.fed == 4  # the first three, and the one in another format


def test_a_stream_whose_frames_all_differ_is_soon_left_to_the_parser() -> None:
    parser, sink = CountingParser("up"), TextTaker()
    one = reader(parser)
    one.use(sink)

    for number in range(99):
        one.push(worded("a").replace(b"}\n", b',"obfuscation":"%d"}\n' % number))

    assert parser.fed == 99
    assert len([event for event in sink.events if type(event) is TextDelta]) == 99


class CountingParser(SSEParser):
    """Counts what it is fed."""

    fed = 0

    def feed(self, data: bytes) -> list[Frame]:
        self.fed += 1
        return super().feed(data)


@given(st.lists(FRAMES, max_size=12))
def test_a_frame_decodes_alike_after_text_and_after_other_frames(frames: list[bytes]) -> None:
    """Frames of text are decoded by a type of their own, but only after such a frame."""
    begun = chunk({"role": "assistant", "content": "begun"})
    odd = chunk({"content": "", "unknown": None})

    plain = _by_frame([begun, *frames])
    general = _by_frame([begun, *(piece for frame in frames for piece in (odd, frame))])

    assert [event for event in general if event] == [event for event in plain if event]


def _by_frame(frames: list[bytes]) -> list[object]:
    """The events of each frame; the first error ends them."""
    decoder = OpenAIDecoder(ENDPOINT, stream=True)
    out: list[object] = []
    for frame in frames:
        try:
            for _, data in SSEParser("up").feed(frame):
                out.extend(decoder.feed("", data))
        except UpstreamError as error:
            out.append(str(error))
            break
    return out
