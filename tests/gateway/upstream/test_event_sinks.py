"""A sink gets the same events as a caller who waits for each batch."""

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from adapters.base import Endpoint
from adapters.framing import SSEParser
from adapters.openai.decode import OpenAIDecoder
from gateway.upstream.event_reader import EventReader
from schemas.errors import UpstreamError
from schemas.events import Event

ENDPOINT = Endpoint(name="up", base_url="http://up.test/v1")
NEVER = float("inf")


def chunk(delta: dict[str, object], **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


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


def reader() -> EventReader:
    decoder = OpenAIDecoder(ENDPOINT, stream=True)
    return EventReader(
        SSEParser("up"), decoder, decoder, "up", first_by=NEVER, between_s=1e9, over=NEVER
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


def pushed(pieces: list[bytes]) -> tuple[list[Event], str]:
    events: list[Event] = []
    one = reader()
    taken = 0

    def sink(batch: Sequence[Event]) -> bool:
        nonlocal taken
        events.extend(batch)
        taken += 1
        return taken % 3 != 0

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
