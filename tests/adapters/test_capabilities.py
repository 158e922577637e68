"""A request's fields are compared by name with those that a backend supports."""

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Range, Supports
from strowger_gateway.adapters.capabilities import TOOL_PROPERTIES, Unsupported, unsupported
from strowger_gateway.schemas.messages import FunctionTool, ImagePart, Message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.openai.openai_doubles import HELLO, WHOLE_CHAT, sampled

LITTLE = Supports(chat=frozenset({"temperature", "stop", "tools"}))


def ranged(field: str, **bounds: float) -> Supports:
    return Supports(chat=frozenset({field}), ranges={field: msgspec.convert(bounds, Range)})


def faults(request: Request, supports: Supports = LITTLE) -> dict[str, str]:
    return {one.field: one.reason for one in unsupported(request, supports)}


def test_a_plain_request_suits_every_backend() -> None:
    assert unsupported(WHOLE_CHAT, LITTLE) == ()


def test_a_field_that_is_not_supported_is_named() -> None:
    request = sampled(temperature=0.5, top_k=3, seed=1)

    assert unsupported(request, LITTLE) == (
        Unsupported(field="seed", reason="is not supported"),
        Unsupported(field="top_k", reason="is not supported"),
    )


def test_a_value_without_effect_is_not_named() -> None:
    request = sampled(n=1, presence_penalty=0.0, top_p=1.0, logprobs=False, logit_bias={})

    assert unsupported(request, LITTLE) == ()


def test_null_is_not_named() -> None:
    assert unsupported(sampled(top_k=None, seed=None), LITTLE) == ()


def test_a_task_that_is_not_offered_is_named() -> None:
    request = EmbeddingsRequest(model="m", inputs=("x",))

    assert faults(request) == {"embeddings": "is not offered"}


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("data:image/png;base64,AA==", "messages.image"),
        ("https://a.test/", "messages.remote_image"),
    ],
)
def test_content_that_is_not_read_is_named(url: str, field: str) -> None:
    picture = Message(role="user", content=(ImagePart(url=url),))

    found = faults(ChatRequest(model="m", messages=(picture,)))

    assert found == {field: "is not supported"}


def test_a_backend_that_reads_images_and_fetches_none_says_how_to_send_one() -> None:
    picture = Message(role="user", content=(ImagePart(url="http://a.test/a.png"),))
    request = ChatRequest(model="m", messages=(picture,))

    (fault,) = unsupported(request, Supports(chat=frozenset({"messages.image"})))

    assert fault.field == "messages.remote_image"
    assert "data: URI" in fault.reason


def test_unknown_fields_are_reported_unless_they_are_sent() -> None:
    request = msgspec.structs.replace(WHOLE_CHAT, extra={"x_new": Raw(b"1")})

    assert faults(request) == {"x_new": "is not known"}
    assert faults(request, msgspec.structs.replace(LITTLE, extra=True)) == {}


@pytest.mark.parametrize(
    ("bounds", "bad", "good", "words"),
    [
        ({"minimum": 0.1}, 0.0, 0.1, "is 0, at least 0.1 is supported"),
        ({"maximum": 1}, 1.5, 1.0, "is 1.5, at most 1 is supported"),
        ({"above": 0}, 0.0, 0.1, "is 0, it must be over 0"),
        ({"below": 1}, 1.0, 0.9, "is 1, it must be under 1"),
    ],
)
def test_a_value_out_of_the_backends_range_is_named(
    bounds: dict[str, float], bad: float, good: float, words: str
) -> None:
    supports = ranged("temperature", **bounds)

    assert faults(sampled(temperature=bad), supports) == {"temperature": words}
    assert faults(sampled(temperature=good), supports) == {}
    assert faults(WHOLE_CHAT, supports) == {}


def test_a_list_that_is_too_long_is_named() -> None:
    supports = ranged("stop", items=2)

    assert faults(sampled(stop=("a", "b", "c")), supports) == {
        "stop": "has 3 entries, at most 2 are supported"
    }
    assert faults(sampled(stop=("a", "b")), supports) == {}


@pytest.mark.parametrize("parameters", [b"5", b'{"properties":7}', b'{"properties":null}', b"{}"])
def test_a_tools_schema_that_is_none_is_left_to_the_backend(parameters: bytes) -> None:
    supports = Supports(
        chat=frozenset({"tools"}), ranges={TOOL_PROPERTIES: Range(maximum=1), "tools": Range()}
    )
    tool = FunctionTool(name="f", parameters=Raw(parameters))
    request = ChatRequest(model="m", messages=(HELLO,), tools=(tool,), sampling=Sampling())

    assert unsupported(request, supports) == ()


@pytest.mark.parametrize(
    ("supports", "request_", "told"),
    [
        (
            Supports(completion=frozenset()),
            TokenRequest(model="m", tokens=(1,)),
            "reads text; configure",
        ),
        (
            Supports(tokens=frozenset()),
            CompletionRequest(model="m", prompts=("p",)),
            "reads tokens",
        ),
        (Supports(tokens=frozenset()), ChatRequest(model="m", messages=()), "with a chat template"),
        (Supports(chat=frozenset()), TokenRequest(model="m", tokens=(1,)), "send messages"),
        (Supports(chat=frozenset()), CompletionRequest(model="m", prompts=("p",)), "send messages"),
    ],
)
def test_a_task_that_is_not_offered_is_refused_with_the_remedy(
    supports: Supports, request_: Request, told: str
) -> None:
    (fault,) = unsupported(request_, supports)

    assert fault.reason.startswith("is not offered: this backend ")
    assert told in fault.reason
