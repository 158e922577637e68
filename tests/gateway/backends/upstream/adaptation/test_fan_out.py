"""Fan-out: several prompts or choices reach backends that accept one per call."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.adaptation.fan_out import (
    MAX_PARALLEL_CALLS,
    FanOut,
    with_fan_out,
)
from strowger_gateway.schemas.errors import UpstreamFailed
from strowger_gateway.schemas.events import Finished, Started, TextDelta, Usage
from strowger_gateway.schemas.requests import CompletionRequest, GenerateRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.backends.upstream.adaptation.scripted import (
    CALL,
    Scripted,
    Step,
    answer_of,
    batches_of,
)

pytestmark = pytest.mark.anyio

ONE = Supports(completion=frozenset({"max_tokens", "seed"}))


def asks(*prompts: str, n: int = 1, seed: int | None = None) -> CompletionRequest:
    return CompletionRequest(
        model="m", prompts=prompts, batch=True, sampling=Sampling(n=n, seed=seed)
    )


def prompt_of(request: GenerateRequest) -> str:
    assert isinstance(request, CompletionRequest)
    (prompt,) = request.prompts
    assert isinstance(prompt, str)
    return prompt


def echoes(request: GenerateRequest) -> Sequence[Step]:
    prompt = prompt_of(request)
    usage = Usage(prompt_tokens=len(prompt), completion_tokens=2, total_tokens=len(prompt) + 2)
    return [
        [Started(id=prompt)],
        0.001 * (7 - len(prompt) % 7),
        [TextDelta(text=prompt)],
        [TextDelta(text="!"), Finished(reason="stop"), usage],
    ]


async def test_every_prompt_is_a_separate_call_and_answered_in_its_place() -> None:
    far = Scripted(ONE, echoes)

    answer = await answer_of(FanOut(far, choices=False).generate(asks("a", "bb", "ccc"), CALL))

    assert [(one.index, one.text) for one in answer.choices] == [
        (0, "a!"),
        (1, "bb!"),
        (2, "ccc!"),
    ]
    assert answer.usage == Usage(prompt_tokens=6, completion_tokens=6, total_tokens=12)
    assert sorted(map(prompt_of, far.asked)) == ["a", "bb", "ccc"]
    assert not any(request.batch for request in far.asked if isinstance(request, CompletionRequest))


async def test_an_answer_begins_once() -> None:
    far = Scripted(ONE, echoes)

    batches = await batches_of(FanOut(far, choices=False).generate(asks("a", "b"), CALL))

    assert sum(isinstance(event, Started) for batch in batches for event in batch) == 1
    assert [type(event) for event in batches[-1]] == [Usage]


async def test_a_few_calls_run_at_a_time() -> None:
    far = Scripted(ONE, echoes)

    await answer_of(FanOut(far, choices=False).generate(asks(*"abcdefghijklmnopqrst"), CALL))

    assert (len(far.asked), far.most) == (20, MAX_PARALLEL_CALLS)


@given(failing=st.integers(0, 5), content=st.booleans())
def test_the_first_failure_ends_all(failing: int, content: bool) -> None:
    def script(request: GenerateRequest) -> Sequence[Step]:
        if prompt_of(request) != str(failing):
            return [[TextDelta(text="x")], 30.0]
        return [*([[TextDelta(text="y")]] if content else []), UpstreamFailed("no", upstream="far")]

    async def ask() -> int:
        far = Scripted(ONE, script)
        with pytest.raises(UpstreamFailed, match="far: no"):
            await answer_of(FanOut(far, choices=False).generate(asks(*"012345"), CALL))
        return far.running

    assert asyncio.run(ask()) == 0


async def test_leaving_early_closes_every_call() -> None:
    far = Scripted(ONE, lambda _: [[TextDelta(text="x")], 30.0])

    async with aclosing(FanOut(far, choices=False).generate(asks(*"abc"), CALL)) as source:
        await anext(source)

    assert (far.running, far.closed) == (0, 3)


async def test_cancelling_closes_every_call() -> None:
    far = Scripted(ONE, lambda _: [30.0])
    source = FanOut(far, choices=False).generate(asks(*"abc"), CALL)
    waiting = asyncio.create_task(answer_of(source))
    await asyncio.sleep(0.01)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert (far.running, far.closed) == (0, 3)


async def test_a_slow_client_holds_the_backends_back() -> None:
    def script(_: GenerateRequest) -> Sequence[Step]:
        return [[TextDelta(text="x")] for _ in range(5000)]

    far = Scripted(ONE, script)
    source = FanOut(far, choices=False).generate(asks(*"abc"), CALL)

    async with aclosing(source):
        await anext(source)
        await asyncio.sleep(0.05)

        assert far.running == 3


async def test_choices_are_calls_too_and_their_prompt_is_counted_once() -> None:
    far = Scripted(ONE, echoes)

    source = FanOut(far, choices=True).generate(asks("a", "bb", n=3, seed=5), CALL)
    answer = await answer_of(source)

    assert [one.text for one in answer.choices] == ["a!"] * 3 + ["bb!"] * 3
    assert answer.usage == Usage(prompt_tokens=3, completion_tokens=12, total_tokens=15)
    assert sorted(str(one.sampling.seed) for one in far.asked[:3]) == ["5", "7", "8"]
    assert all(one.sampling.n is UNSET for one in far.asked)


async def test_choices_without_a_seed_get_different_ones() -> None:
    far = Scripted(ONE, echoes)

    await answer_of(FanOut(far, choices=True).generate(asks("a", n=4), CALL))

    assert len({one.sampling.seed for one in far.asked}) == 4


async def test_usage_that_one_call_does_not_report_is_not_made_up() -> None:
    def script(request: GenerateRequest) -> Sequence[Step]:
        usage = Usage(prompt_tokens=1) if prompt_of(request) == "a" else Usage(
            prompt_tokens=2, completion_tokens=2
        )  # fmt: skip
        return [[TextDelta(text="x"), Finished(reason="stop"), usage]]

    far = Scripted(ONE, script)

    answer = await answer_of(FanOut(far, choices=False).generate(asks("a", "b"), CALL))

    assert answer.usage == Usage(prompt_tokens=3)


def test_a_backend_that_accepts_several_prompts_is_unchanged() -> None:
    far = Scripted(Supports(completion=frozenset({"prompt.batch"})), echoes)

    assert with_fan_out(far, choices=False) is far


def test_choices_are_offered_only_on_request() -> None:
    far = Scripted(Supports(completion=frozenset(), tokens=frozenset()), echoes)

    plain, more = with_fan_out(far, choices=False), with_fan_out(far, choices=True)

    assert plain.supports == Supports(completion=frozenset({"prompt.batch"}), tokens=frozenset())
    assert more.supports.tokens == {"n"}
