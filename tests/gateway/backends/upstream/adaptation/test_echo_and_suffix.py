"""Echo and suffix: prompts precede completions and suffixes follow them, with any backend."""

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.adaptation.echo_and_suffix import (
    EchoAndSuffix,
    with_echo_and_suffix,
)
from strowger_gateway.gateway.backends.upstream.adaptation.stop_enforcement import StopEnforcement
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Event, Finished, TextDelta
from strowger_gateway.schemas.requests import CompletionRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.backends.upstream.adaptation.scripted import (
    CALL,
    Scripted,
    answer_of,
    text_answer,
)
from tests.gateway.backends.upstream.adaptation.vocabularies import family

pytestmark = pytest.mark.anyio

PLAIN = Supports(completion=frozenset({"n", "prompt.batch"}))


def asks(*prompts: str | tuple[int, ...], n: int = 1, **more: object) -> CompletionRequest:
    echo, suffix = more.get("echo", True), more.get("append_suffix", "!")
    assert isinstance(echo, bool)
    assert isinstance(suffix, str)
    return CompletionRequest(
        model="m", prompts=prompts, sampling=Sampling(n=n), echo=echo, append_suffix=suffix
    )


async def test_a_prompt_comes_back_before_its_answer_and_a_suffix_follows() -> None:
    far = Scripted(PLAIN, lambda _: text_answer("b", "c"))

    answer = await answer_of(EchoAndSuffix(far).generate(asks("a "), CALL))

    assert answer.choices[0].text == "a bc!"
    assert far.asked == [CompletionRequest(model="m", prompts=("a ",), sampling=Sampling(n=1))]


async def test_every_choice_has_its_own_prompt() -> None:
    def script(_: object) -> list[list[Event]]:
        return [
            [TextDelta(text="x", index=index), Finished(reason="stop", index=index)]
            for index in (3, 1, 0, 2)
        ]

    far = Scripted(PLAIN, script)

    answer = await answer_of(EchoAndSuffix(far).generate(asks("a", "b", n=2), CALL))

    assert [one.text for one in answer.choices] == ["ax!", "ax!", "bx!", "bx!"]


async def test_an_answer_without_text_has_its_prompt_all_the_same() -> None:
    far = Scripted(PLAIN, lambda _: [[Finished(reason="stop")]])

    answer = await answer_of(EchoAndSuffix(far).generate(asks("a"), CALL))

    assert answer.choices[0].text == "a!"


async def test_stop_strings_are_searched_only_in_the_answer() -> None:
    far = Scripted(Supports(completion=frozenset()), lambda _: text_answer("one two three"))
    request = CompletionRequest(
        model="m", prompts=("two ",), sampling=Sampling(stop=("two",)), echo=True
    )

    answer = await answer_of(EchoAndSuffix(StopEnforcement(far)).generate(request, CALL))

    assert answer.choices[0].text == "two one "


async def test_a_prompt_of_tokens_is_written_out_by_the_tokenizer() -> None:
    tokenizer = family("byte-level")
    far = Scripted(PLAIN, lambda _: text_answer("x"))
    request = asks(tokenizer.encode("the dog"))

    answer = await answer_of(EchoAndSuffix(far, tokenizer).generate(request, CALL))

    assert answer.choices[0].text == "the dogx!"


def test_a_prompt_of_tokens_cannot_be_written_out_without_one() -> None:
    with pytest.raises(InvalidRequest, match="cannot echo prompts of tokens") as caught:
        EchoAndSuffix(Scripted(PLAIN, lambda _: [])).generate(asks((1, 2)), CALL)

    assert caught.value.param == "echo"


def test_a_prompt_with_log_probabilities_is_refused() -> None:
    request = CompletionRequest(
        model="m", prompts=("a",), sampling=Sampling(logprobs=True), echo=True
    )

    with pytest.raises(InvalidRequest, match="omit echo or logprobs"):
        EchoAndSuffix(Scripted(PLAIN, lambda _: [])).generate(request, CALL)


async def test_what_the_backend_does_itself_is_left_to_it() -> None:
    own = Supports(completion=frozenset({"echo"}))
    far = Scripted(own, lambda _: text_answer("ax"))

    answer = await answer_of(EchoAndSuffix(far).generate(asks("a"), CALL))

    assert answer.choices[0].text == "ax!"
    (sent,) = far.asked
    assert isinstance(sent, CompletionRequest)
    assert sent.echo is True


def test_a_backend_that_lacks_nothing_is_unchanged() -> None:
    whole = Scripted(Supports(completion=frozenset({"echo", "append_suffix"})), lambda _: [])
    chats = Scripted(Supports(chat=frozenset()), lambda _: [])

    assert with_echo_and_suffix(whole) is whole
    assert with_echo_and_suffix(chats) is chats
