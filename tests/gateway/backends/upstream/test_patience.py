"""How long an answer that is not streamed may take to begin, by what its request allows."""

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.backends.upstream.patience import REASONING, USUAL, first_byte_of
from strowger_gateway.gateway.config.schema.connection import Timeouts
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest
from strowger_gateway.schemas.sampling import Sampling

FEW = Sampling(max_tokens=100)


def chat(sampling: Sampling) -> ChatRequest:
    message = Message(role="user", content="hi")
    return ChatRequest(model="m", messages=(message,), sampling=sampling)


def completion(prompts: int, sampling: Sampling = FEW) -> CompletionRequest:
    return CompletionRequest(model="m", prompts=("hi",) * prompts, sampling=sampling)


@pytest.mark.parametrize(
    ("request_", "seconds"),
    [
        (chat(Sampling()), 480.0),
        (chat(Sampling(max_tokens=None)), 480.0),
        (chat(FEW), 170.0),
        (chat(Sampling(max_tokens=16_000)), 480.0),
        (chat(Sampling(max_tokens=10**400)), 480.0),
        (chat(replace(FEW, n=4)), 320.0),
        (chat(replace(FEW, n=2, best_of=5)), 370.0),
        (completion(1), 170.0),
        (completion(3), 270.0),
        (completion(3, replace(FEW, n=2)), 420.0),
        (completion(128), 480.0),
    ],
)
def test_each_token_of_all_answers_has_half_a_second(
    request_: ChatRequest | CompletionRequest, seconds: float
) -> None:
    assert first_byte_of(Timeouts(), USUAL).within_s(request_) == seconds


def test_an_operators_limit_and_a_model_that_reasons_have_their_own() -> None:
    assert first_byte_of(Timeouts(first_byte_s=30.0), USUAL).within_s(chat(FEW)) == 30.0
    assert first_byte_of(Timeouts(total_s=590.0), USUAL).within_s(chat(FEW)) == 590.0
    assert first_byte_of(Timeouts(), REASONING).within_s(chat(FEW)) == 350.0
