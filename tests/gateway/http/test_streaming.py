"""A piece of text leaves with the same bytes whether it comes as an event or as text."""

from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.http.streaming import StreamOutput
from strowger_gateway.gateway.server.asgi.response import ResponseWriter
from strowger_gateway.gateway.surfaces.anthropic.surface import MESSAGES
from strowger_gateway.gateway.surfaces.base import Surface
from strowger_gateway.gateway.surfaces.databricks.surface import CHAT as DATABRICKS
from strowger_gateway.gateway.surfaces.openai.surface import CHAT, COMPLETIONS
from strowger_gateway.gateway.surfaces.responses.surface import RESPONSES
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    Usage,
    text_sink,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, Sampling

ID = "0190f0a0-7000-7000-8000-000000000000"
ASKED = ChatRequest(
    model="asked", messages=(), sampling=Sampling(), stream=True, include_usage=True
)
CONTINUOUS = ChatRequest(
    model="asked", messages=(), sampling=Sampling(), stream=True, continuous_usage=True
)
SURFACES: Mapping[str, tuple[Surface, ChatRequest | CompletionRequest]] = {
    "chat": (CHAT, ASKED),
    "chat with usage in each chunk": (CHAT, CONTINUOUS),
    "completions": (
        COMPLETIONS,
        CompletionRequest(model="asked", prompts=("a",), sampling=Sampling(), stream=True),
    ),
    "databricks": (DATABRICKS, ASKED),
    "messages": (MESSAGES, ASKED),
    "responses": (RESPONSES, ASKED),
}
TEXTS = st.builds(TextDelta, text=st.text(min_size=1, max_size=5), index=st.integers(0, 1))
EVENTS = st.lists(
    TEXTS
    | TEXTS
    | st.sampled_from(
        [
            Started(id="b", model="served"),
            ReasoningDelta(text="hm"),
            Usage(prompt_tokens=3, completion_tokens=1),
            Usage(prompt_tokens=3, completion_tokens=2),
            Finished(reason="stop", index=1),
        ]
    ),
    max_size=12,
)


class Client:
    """Takes each frame at once, or not."""

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads
        self.received: list[bytes] = []

    def frame_now(self, data: bytes) -> bool:
        if self.reads:
            self.received.append(data)
        return self.reads

    async def frame(self, data: bytes) -> None:
        self.received.append(data)


def output_of(name: str, client: Client) -> StreamOutput:
    surface, request = SURFACES[name]
    renderer = surface.renderer(request, ID)
    return StreamOutput(renderer, cast("ResponseWriter", client), comments=True)


@pytest.mark.parametrize("name", SURFACES)
@given(events=EVENTS)
def test_text_is_written_as_its_event_is(name: str, events: Sequence[Event]) -> None:
    by_event, by_text = Client(), Client()
    general, fast = output_of(name, by_event), output_of(name, by_text)
    take = text_sink(fast)

    for event in events:
        assert general([event])
        assert take(event.text, event.index) if type(event) is TextDelta else fast([event])

    assert by_text.received == by_event.received


@pytest.mark.anyio
async def test_text_that_a_client_does_not_read_waits_for_it() -> None:
    client = Client()
    output = output_of("chat", client)
    output([TextDelta(text="one")])
    client.reads = False

    assert not text_sink(output)("two", 0)

    client.reads = True
    await output.write([])
    assert len(client.received) == 2
    assert b'"content":"two"' in client.received[1]
