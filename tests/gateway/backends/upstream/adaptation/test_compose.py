"""All adaptations of a provider together: the client gets exactly what it requests."""

import asyncio
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.adaptation.compose import adapt
from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import INLINE, aside
from strowger_gateway.gateway.backends.upstream.base import Upstream, chat_path_of
from strowger_gateway.schemas.answers import Choice
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Finished, TextDelta
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.examples import examples
from tests.gateway.backends.upstream.adaptation.scripted import (
    CALL,
    Scripted,
    Step,
    answer_of,
    text_answer,
    token_answer,
)
from tests.gateway.backends.upstream.adaptation.vocabularies import TINY, cut, family

SAMPLING = frozenset({"max_tokens", "temperature"})
LETTERS = "ab \n.é你"


def around(far: Scripted) -> Upstream:
    return adapt(far, TINY)


def asked(upstream: Upstream, request: GenerateRequest) -> Choice:
    answer = asyncio.run(answer_of(upstream.generate(request, CALL)))
    (choice,) = answer.choices
    return choice


@settings(max_examples=examples(60), deadline=None)
@given(
    text=st.text(LETTERS, max_size=40),
    places=st.lists(st.integers(0, 99), max_size=5),
    stop=st.text(LETTERS, min_size=1, max_size=3),
)
def test_a_token_client_sees_a_text_backends_answer_up_to_its_stop_string(
    text: str, places: list[int], stop: str
) -> None:
    def script(_: GenerateRequest) -> list[Step]:
        deltas: list[Step] = [[TextDelta(text=delta)] for delta in cut(text, places)]
        return [*deltas, [Finished(reason="length")]]

    tokenizer = family("tiny-chat")
    far = Scripted(Supports(completion=SAMPLING), script)
    request = TokenRequest(
        model="m", tokens=tokenizer.encode("Hi"), sampling=Sampling(stop=(stop,))
    )

    choice = asked(around(far), request)

    shown = text.partition(stop)[0]
    assert (choice.text or "") == shown
    assert choice.finish is not None
    assert choice.finish.reason == ("stop" if stop in text else "length")
    assert tokenizer.decode(choice.token_ids).startswith(shown)


@settings(max_examples=examples(60), deadline=None)
@given(text=st.text(LETTERS, max_size=40), stop=st.text(LETTERS, min_size=1, max_size=3))
def test_a_text_client_sees_a_token_backends_answer_up_to_its_stop_string(
    text: str, stop: str
) -> None:
    tokenizer = family("tiny-chat")
    ids = tokenizer.encode(text, special=False)
    silent = Supports(tokens=SAMPLING, text_of_tokens=False)
    far = Scripted(silent, lambda _: token_answer(*((id, "") for id in ids)))
    request = CompletionRequest(model="m", prompts=("Hi",), sampling=Sampling(stop=(stop,)))

    choice = asked(around(far), request)

    assert (choice.text or "") == text.partition(stop)[0]


@pytest.mark.anyio
async def test_long_work_does_not_block_the_event_loop() -> None:
    here = threading.get_ident()

    assert await aside(INLINE, threading.get_ident) == here
    assert await aside(INLINE + 1, threading.get_ident) != here


def test_a_provider_that_lacks_nothing_is_unchanged() -> None:
    everything = Supports(
        chat=frozenset({"stop"}),
        completion=frozenset({"stop", "echo", "append_suffix", "prompt.batch"}),
        embeddings=frozenset(),
    )
    far = Scripted(everything, lambda _: [])

    assert adapt(far, None) is far


def test_a_special_token_cannot_end_an_answer_of_text() -> None:
    far = Scripted(Supports(completion=SAMPLING), lambda _: [])
    request = TokenRequest(model="m", tokens=(1,), sampling=Sampling(stop_token_ids=(6,)))

    with pytest.raises(InvalidRequest, match="in which token 6 never appears"):
        around(far).generate(request, CALL)


@settings(max_examples=examples(60), deadline=None)
@given(
    chat=st.sets(st.sampled_from(["max_tokens", "stop", "n"])),
    completion=st.none() | st.sets(st.sampled_from(["stop", "n", "echo", "prompt.batch"])),
    stop=st.sampled_from([UNSET, (), ("b",)]),
    n=st.sampled_from([UNSET, 1, 2]),
    tokens=st.booleans(),
)
def test_a_chat_that_needs_no_adaptation_passes_none(
    chat: set[str],
    completion: set[str] | None,
    stop: tuple[str, ...] | UnsetType,
    n: int | UnsetType,
    tokens: bool,
) -> None:
    offered = Supports(
        chat=frozenset(chat),
        completion=None if completion is None else frozenset(completion),
        tokens=frozenset[str]() if tokens else None,
    )
    far = Scripted(offered, lambda _: text_answer("a", "b", "c"))
    adapted = adapt(far, None)
    sampling = Sampling(stop=stop, n=n)
    turn = Message(role="user", content="hi")
    request = ChatRequest(model="m", messages=(turn,), sampling=sampling)

    path = chat_path_of(adapted)

    assert (path is None) == (adapted is far)
    if path is not None:
        assert path.upstream is far
        if all(getattr(sampling, name) is UNSET for name in path.fields):
            asyncio.run(answer_of(adapted.generate(request, CALL)))
            assert far.asked == [request]
            assert far.asked[0] is request
        elif stop:
            assert "stop" in path.fields or "stop" in chat
