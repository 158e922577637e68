"""Stops that a backend does not support still end its answers, and close its connection."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.adaptation.stop_detection import (
    StopDetector,
    StopRules,
)
from strowger_gateway.gateway.backends.upstream.adaptation.stop_enforcement import (
    StopEnforcement,
    with_stop_enforcement,
)
from strowger_gateway.schemas.errors import InvalidRequest, UpstreamFailed
from strowger_gateway.schemas.events import Event, Finished, TextDelta, TokenLogprob, Tokens, Usage
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.backends.upstream.adaptation.scripted import (
    CALL,
    Scripted,
    answer_of,
    text_answer,
    token_answer,
)
from tests.gateway.backends.upstream.adaptation.vocabularies import family

pytestmark = pytest.mark.anyio

TOKENS = Supports(tokens=frozenset({"max_tokens", "seed", "min_tokens", "n"}))
TEXT = Supports(
    chat=frozenset({"max_tokens", "n"}),
    completion=frozenset({"max_tokens", "min_tokens", "echo", "prompt.batch"}),
)
WORDS = ((7, "one "), (8, "two "), (9, "three "), (7, "one "), (5, "."))


def asks(**sampling: object) -> TokenRequest:
    return TokenRequest(model="m", tokens=(1, 2, 3), sampling=msgspec.convert(sampling, Sampling))


def reference(pieces: Sequence[str], stops: Sequence[str]) -> tuple[str, str | None]:
    """What is shown of a text, and the stop that ended it: the first to be complete."""
    text = ""
    for piece in pieces:
        text += piece
        found = [(text.find(stop), -len(stop), stop) for stop in stops if stop in text]
        if found:
            at, _, stop = min(found)
            return text[:at], stop
    return text, None


@given(
    pieces=st.lists(st.text("abc", max_size=3), max_size=8),
    stops=st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_a_text_is_cut_where_its_first_stop_string_begins(
    pieces: list[str], stops: list[str]
) -> None:
    stopper = StopDetector(StopRules(strings=tuple(stops)), 0, "far")
    events: list[Event] = []

    for piece in pieces:
        if not stopper.ended:
            events += stopper.feed(TextDelta(text=piece))
    if not stopper.ended:
        events += stopper.finish(Finished(reason="length"))

    text, match = reference(pieces, stops)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    finish = events[-1]
    assert isinstance(finish, Finished)
    assert (finish.stop_match, finish.reason) == (match, "stop" if match else "length")


@given(
    pieces=st.lists(st.text("ab", max_size=3), min_size=1, max_size=8),
    stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_of_tokens_all_are_kept_that_begin_before_the_match(
    pieces: list[str], stops: list[str]
) -> None:
    stopper = StopDetector(StopRules(strings=tuple(stops)), 0, "far")
    events: list[Event] = []

    for id, piece in enumerate(pieces):
        if not stopper.ended:
            events += stopper.feed(Tokens(ids=(id,), text=piece))
    if not stopper.ended:
        events += stopper.finish(Finished(reason="length"))

    text, match = reference(pieces, stops)
    tokens = [event for event in events if isinstance(event, Tokens)]
    ends = list(accumulate(len(piece) for piece in pieces))
    starts = [end - len(piece) for end, piece in zip(ends, pieces, strict=True)]
    kept = [
        id
        for id, (start, end) in enumerate(zip(starts, ends, strict=True))
        if match is None or start < len(text) or end <= len(text)
    ]
    assert "".join(event.text for event in tokens) == text
    assert [id for event in tokens for id in event.ids] == kept


async def test_a_stop_string_ends_a_token_answer_and_closes_the_backend() -> None:
    far = Scripted(TOKENS, lambda _: token_answer(*WORDS))

    answer = await answer_of(StopEnforcement(far).generate(asks(stop=("o thr",), seed=4), CALL))

    choice = answer.choices[0]
    assert (choice.text, choice.token_ids) == ("one tw", [7, 8])
    assert choice.finish == Finished(
        reason="stop", native="stop_sequence", stop_match="o thr", seed=4
    )
    assert answer.usage == Usage(prompt_tokens=3, completion_tokens=2, total_tokens=5)
    assert far.closed == 1


async def test_the_backend_streams_and_receives_nothing_that_it_does_not_support() -> None:
    far = Scripted(TOKENS, lambda _: token_answer(*WORDS))

    await answer_of(StopEnforcement(far).generate(asks(stop=("x",), max_tokens=9, pad_id=0), CALL))

    (sent,) = far.asked
    assert isinstance(sent, TokenRequest)
    assert (sent.stream, sent.sampling) == (True, Sampling(max_tokens=9))


@pytest.mark.parametrize(
    ("sampling", "ids", "text", "finish"),
    [
        ({"stop_token_ids": (9,)}, [7, 8, 9], "one two ", ("stop_sequence", 9)),
        ({"stop_words": ((4, 4), (8, 9))}, [7, 8, 9], "one two three ", ("stop_sequence", None)),
        ({"stop_words": ((9,),)}, [7, 8, 9], "one two ", ("stop_sequence", 9)),
        ({"end_id": 8}, [7, 8], "one ", ("eos_token", None)),
        ({"stop_token_ids": (7,), "min_tokens": 1}, [7, 8, 9, 7], "one two three ",
         ("stop_sequence", 7)),
        ({"stop": ("two",), "min_tokens": 2}, [7, 8, 9, 7, 5], "one two three one .", ("", None)),
        ({"stop": ("one",), "min_tokens": 2}, [7, 8, 9], "one two three ",
         ("stop_sequence", "one")),
    ],
)  # fmt: skip
async def test_tokens_end_an_answer_as_in_the_local_engine(
    sampling: dict[str, object], ids: list[int], text: str, finish: tuple[str, object]
) -> None:
    far = Scripted(TOKENS, lambda _: token_answer(*WORDS))

    answer = await answer_of(StopEnforcement(far).generate(asks(**sampling), CALL))

    choice = answer.choices[0]
    assert (choice.token_ids, choice.text) == (ids, text)
    assert choice.finish is not None
    assert (choice.finish.native, choice.finish.stop_match) == finish


async def test_a_sequence_that_was_found_is_named_where_there_is_a_tokenizer() -> None:
    tokenizer = family("byte-level")
    word = tokenizer.encode(" the dog", special=False)
    far = Scripted(TOKENS, lambda _: token_answer(*((id, "") for id in word)))

    asked = asks(stop_words=(word,))
    answer = await answer_of(StopEnforcement(far, tokenizer).generate(asked, CALL))

    assert answer.choices[0].finish is not None
    assert answer.choices[0].finish.stop_match == " the dog"


async def test_what_the_backend_ends_itself_is_passed_on_whole() -> None:
    far = Scripted(TOKENS, lambda _: token_answer(*WORDS))

    answer = await answer_of(StopEnforcement(far).generate(asks(stop=("..",)), CALL))

    assert answer.choices[0].text == "one two three one ."
    assert answer.choices[0].finish == Finished(reason="stop")
    assert answer.usage == Usage(prompt_tokens=3, completion_tokens=5)
    assert far.closed == 0


async def test_each_of_several_choices_has_its_own_end() -> None:
    def script(_: object) -> list[list[Event]]:
        return [
            [Tokens(ids=(1,), text="ab"), Tokens(ids=(2,), text="x", index=1)],
            [Tokens(ids=(3,), text="!c"), Tokens(ids=(4,), text="y", index=1)],
            [Tokens(ids=(5,), text="d"), Tokens(ids=(6,), text="z!", index=1)],
            [Tokens(ids=(7,), text="never")],
        ]

    far = Scripted(TOKENS, script)

    answer = await answer_of(StopEnforcement(far).generate(asks(stop=("!",), n=2), CALL))

    assert [(one.text, one.token_ids) for one in answer.choices] == [
        ("ab", [1]),
        ("xyz", [2, 4, 6]),
    ]
    assert far.closed == 1


async def test_log_probabilities_go_with_the_text_that_is_shown() -> None:
    def script(_: object) -> list[list[Event]]:
        return [
            [TextDelta(text=text, logprobs=(TokenLogprob(token=text, logprob=-1.0),))]
            for text in ("a", "b", "c")
        ]

    far = Scripted(TEXT, script)
    request = CompletionRequest(model="m", prompts=("p",), sampling=Sampling(stop=("bc",)))

    answer = await answer_of(StopEnforcement(far).generate(request, CALL))

    assert answer.choices[0].text == "a"
    assert [one.token for one in answer.choices[0].logprobs] == ["a"]


async def test_conversations_are_cut_at_stop_strings_too() -> None:
    far = Scripted(TEXT, lambda _: text_answer("Hel", "lo. ", "And more"))
    request = ChatRequest(
        model="m", messages=(Message(role="user", content="hi"),), sampling=Sampling(stop=("o.",))
    )

    answer = await answer_of(StopEnforcement(far).generate(request, CALL))

    assert answer.choices[0].text == "Hell"
    assert far.closed == 1


async def test_an_end_token_that_is_the_models_own_adds_no_requirement() -> None:
    tokenizer = family("byte-level")
    far = Scripted(TOKENS, lambda _: token_answer(*WORDS))

    await answer_of(StopEnforcement(far, tokenizer).generate(asks(end_id=tokenizer.end), CALL))

    assert far.asked == [asks()]


async def test_another_end_token_is_requested_if_the_backend_supports_stop_tokens() -> None:
    knows = Supports(tokens=frozenset({"stop_token_ids", "ignore_eos"}))
    far = Scripted(knows, lambda _: token_answer(*WORDS))

    await answer_of(StopEnforcement(far).generate(asks(end_id=9, stop_token_ids=(4,)), CALL))
    await answer_of(StopEnforcement(far).generate(asks(end_id=-1), CALL))

    assert far.asked == [asks(stop_token_ids=(4, 9), ignore_eos=True), asks(ignore_eos=True)]


def test_no_end_token_at_all_is_refused_where_the_backend_cannot_ignore_its_own() -> None:
    ranges = StopEnforcement(Scripted(TOKENS, lambda _: [])).supports.ranges

    assert ranges["end_id"].minimum == 0


async def test_a_stop_token_among_others_is_an_error_if_its_text_is_unknown() -> None:
    far = Scripted(TOKENS, lambda _: [[Tokens(ids=(7, 9), text="one three")]])

    with pytest.raises(UpstreamFailed, match="token 9, which ends the answer"):
        await answer_of(StopEnforcement(far).generate(asks(stop_token_ids=(9,)), CALL))


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (CompletionRequest(model="m", prompts=("p",),
                           sampling=Sampling(stop=("x",), min_tokens=2)), "stop"),
        (CompletionRequest(model="m", prompts=("p",), echo=True,
                           sampling=Sampling(stop=("x",))), "echo"),
    ],
)  # fmt: skip
def test_what_cannot_be_enforced_together_is_refused_by_name(
    request_: CompletionRequest, param: str
) -> None:
    with pytest.raises(InvalidRequest, match="omit one of the two") as caught:
        StopEnforcement(Scripted(TEXT, lambda _: [])).generate(request_, CALL)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("field", "value"), [("stop_token_ids", (4,)), ("stop_words", ((9, 4),)), ("end_id", 4)]
)
def test_a_token_that_text_never_shows_cannot_end_an_answer(field: str, value: object) -> None:
    far = StopEnforcement(Scripted(TOKENS, lambda _: []), family("byte-level"), spelt=True)

    with pytest.raises(
        InvalidRequest, match="answers with text, in which token 4 never appears"
    ) as caught:
        far.generate(asks(**{field: value}), CALL)

    assert caught.value.param == field


def test_stop_strings_are_not_offered_if_the_text_is_unknown() -> None:
    silent = msgspec.structs.replace(TOKENS, text_of_tokens=False)

    without = with_stop_enforcement(Scripted(silent, lambda _: [])).supports.tokens
    with_one = with_stop_enforcement(
        Scripted(silent, lambda _: []), family("byte-level")
    ).supports.tokens

    assert without is not None
    assert with_one is not None
    assert with_one - without == {"stop"}


def test_a_backend_that_supports_every_stop_is_unchanged() -> None:
    far = Scripted(Supports(chat=frozenset({"stop"}), completion=frozenset({"stop"})), lambda _: [])

    assert with_stop_enforcement(far) is far
