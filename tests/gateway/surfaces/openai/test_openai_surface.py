"""The OpenAI surface's interface for routes: parse, renderer, error."""

import time

import msgspec
import pytest

from strowger_gateway.gateway.routing.request_record import new_request_id
from strowger_gateway.gateway.surfaces.base import Inbound, Surface
from strowger_gateway.gateway.surfaces.openai.surface import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    OpenAISurface,
)
from strowger_gateway.gateway.surfaces.openai.wire import ChatWire, CompletionWire, EmbeddingsWire
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.events import ReasoningDelta, TextDelta
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    TokenRequest,
)
from tests.gateway.surfaces.answers import payloads

SURFACES: tuple[Surface, ...] = (CHAT, COMPLETIONS, EMBEDDINGS)
BODY = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
REQUEST_ID = "01936f2e-1234-7abc-8def-0123456789ab"


@pytest.mark.parametrize(
    ("surface", "body", "kind"),
    [
        (CHAT, BODY, ChatRequest),
        (COMPLETIONS, b'{"model":"m","prompt":"x"}', CompletionRequest),
        (EMBEDDINGS, b'{"model":"m","input":"x"}', EmbeddingsRequest),
    ],
)
def test_each_route_reads_its_own_task(surface: Surface, body: bytes, kind: type) -> None:
    request = surface.parse(Inbound(body=body, max_choices=1))

    assert type(request) is kind
    assert surface.parse(Inbound(body=body, max_choices=1, model="path")).model == "path"


def test_the_surfaces_have_their_name_and_task() -> None:
    assert {surface.name for surface in SURFACES} == {"openai"}
    assert [surface.task for surface in SURFACES] == ["chat", "completion", "embeddings"]
    assert {surface.keep_alive for surface in SURFACES} == {b": keep-alive\n\n"}


@pytest.mark.parametrize("surface", [CHAT, COMPLETIONS])
def test_the_operators_bound_on_choices_holds(surface: Surface) -> None:
    body = b'{"model":"m","n":3,"prompt":"x","messages":[{"role":"user","content":"x"}]}'

    with pytest.raises(InvalidRequest, match="n must be at most 2"):
        surface.parse(Inbound(body=body, max_choices=2))


@pytest.mark.parametrize(
    ("request_", "prefix"),
    [
        (ChatRequest(model="m", messages=()), "chatcmpl-"),
        (CompletionRequest(model="m", prompts=("x",)), "cmpl-"),
    ],
)
def test_an_answer_has_the_requests_id_and_time(
    request_: ChatRequest | CompletionRequest, prefix: str
) -> None:
    data = CHAT.renderer(request_, REQUEST_ID).events([TextDelta(text="a")])

    read = msgspec.json.decode(payloads(data)[0], type=dict[str, msgspec.Raw])
    assert msgspec.json.decode(read["id"]) == prefix + REQUEST_ID
    assert msgspec.json.decode(read["created"]) == 0x01936F2E1234 // 1000


def test_an_answer_to_a_request_of_now_was_created_now() -> None:
    before = int(time.time())

    data = CHAT.renderer(ChatRequest(model="m", messages=()), new_request_id()).events(
        [TextDelta(text="a")]
    )

    read = msgspec.json.decode(payloads(data)[0], type=dict[str, msgspec.Raw])
    assert before <= msgspec.json.decode(read["created"], type=int) <= before + 60


def test_vectors_have_the_requests_id() -> None:
    request = EmbeddingsRequest(model="m", inputs=("x",))

    body = EMBEDDINGS.renderer(request, REQUEST_ID).embeddings(Embeddings(vectors=([1.0],)))

    assert b'"id":"embd-01936f2e-1234-7abc-8def-0123456789ab"' in body


def test_the_name_of_thinking_is_a_setting() -> None:
    surface = OpenAISurface("chat", reasoning="reasoning_content")

    data = surface.renderer(ChatRequest(model="m", messages=()), REQUEST_ID).events(
        [ReasoningDelta(text="hm")]
    )

    assert b'"reasoning_content":"hm"' in data
    assert b'"reasoning":' not in data


def test_tokens_are_not_of_this_dialect() -> None:
    request = TokenRequest(model="m", tokens=(1,))

    with pytest.raises(GatewayError, match="no token-in, token-out task"):
        CHAT.renderer(request, REQUEST_ID)
    with pytest.raises(GatewayError, match="no token-in, token-out task"):
        OpenAISurface("tokens").parse(Inbound(body=BODY, max_choices=1))


@pytest.mark.parametrize("wire", [ChatWire, CompletionWire, EmbeddingsWire])
def test_the_wire_can_be_documented(wire: type[msgspec.Struct]) -> None:
    _, components = msgspec.json.schema_components([wire])

    assert set(components[wire.__name__]["properties"]) == set(wire.__struct_fields__)
