"""The service's answers to each kind of request, on a tiny model."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
import pytest

from strowger_gateway.local_engine.config import ModelConfig
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.events import TextDelta, Tokens, Usage
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.services import (
    DEVICE,
    MODEL,
    Oracle,
    ask,
    chat,
    completion,
    config,
    events,
    serving,
)

pytestmark = pytest.mark.anyio

GREEDY = Sampling(temperature=0.0, max_tokens=20, ignore_eos=True)
SEEDED = Sampling(temperature=1.0, max_tokens=8, seed=5, ignore_eos=True)
PROMPT = "the lazy dog"


@pytest.fixture(scope="module")
async def service(folder: Folder) -> AsyncGenerator[Service, None]:
    async with serving(config(folder("llama"), max_new_tokens=40)) as service:
        yield service


@pytest.fixture(scope="module")
def oracle(folder: Folder) -> Oracle:
    return Oracle(folder("llama"))


def only(sampling: Sampling, **changes: object) -> Sampling:
    return msgspec.structs.replace(sampling, **changes)


def continued(oracle: Oracle, prompt: list[int], tokens: list[int]) -> str:
    """Return the text of `tokens` in their place after the prompt."""
    return oracle.tokenizer.decode(prompt + tokens).removeprefix(oracle.tokenizer.decode(prompt))


async def test_a_chat_is_answered_with_the_tokens_of_transformers_generate(
    service: Service, oracle: Oracle
) -> None:
    prompt = oracle.tokenizer.encode(f"<|user|>user: {PROMPT}\n<|assistant|>", special=False)

    answer = await ask(service, chat(PROMPT, GREEDY))

    assert answer.choices[0].text == continued(oracle, prompt, oracle.greedy(prompt, 20))
    assert answer.started.model == MODEL
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(prompt)
    assert answer.usage.completion_tokens == 20


async def test_a_prompt_goes_in_raw_or_through_the_template_or_as_tokens(
    service: Service, oracle: Oracle
) -> None:
    raw, templated, tokens = [
        await ask(service, request)
        for request in (
            completion(PROMPT, GREEDY),
            CompletionRequest(model=MODEL, prompts=(PROMPT,), sampling=GREEDY, template=True),
            completion(tuple(oracle.tokenizer.encode(PROMPT)), GREEDY),
        )
    ]
    chatted = await ask(service, chat(PROMPT, GREEDY))

    ids = oracle.tokenizer.encode(PROMPT)
    assert raw.choices[0].text == continued(oracle, ids, oracle.greedy(ids, 20))
    assert tokens.choices[0].text == raw.choices[0].text
    assert templated.choices[0].text == chatted.choices[0].text


async def test_several_prompts_times_n_are_numbered_prompt_by_prompt(service: Service) -> None:
    request = CompletionRequest(
        model=MODEL, prompts=(PROMPT, "fox"), batch=True, sampling=only(SEEDED, n=2)
    )

    answer = await ask(service, request)
    alone = await ask(service, completion("fox", SEEDED))

    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.choices[2].text == alone.choices[0].text
    assert answer.choices[3].text != alone.choices[0].text
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 32


@pytest.mark.skipif(DEVICE == "npu", reason="its operator draws answers without a seed")
async def test_each_choice_returns_the_seed_that_reproduces_it(service: Service) -> None:
    first = await ask(service, completion(PROMPT, only(SEEDED, seed=None, n=2)))
    for choice in first.choices:
        assert choice.finish is not None

        again = await ask(service, completion(PROMPT, only(SEEDED, seed=choice.finish.seed)))

        assert again.choices[0].text == choice.text


async def test_greedy_answers_do_not_depend_on_the_seed(service: Service) -> None:
    answers = [await ask(service, chat(PROMPT, only(GREEDY, seed=seed))) for seed in (1, 2)]

    assert answers[0].choices[0].text == answers[1].choices[0].text


async def test_without_max_tokens_a_completion_has_16_tokens_and_a_chat_the_maximum(
    service: Service,
) -> None:
    silent = Sampling(temperature=0.0, ignore_eos=True)

    completed, chatted = (
        await ask(service, completion("x", silent)),
        await ask(service, chat("x", silent)),
    )

    assert completed.usage is not None
    assert completed.usage.completion_tokens == 16
    assert chatted.usage is not None
    assert chatted.usage.completion_tokens == 40
    assert chatted.choices[0].finish is not None
    assert chatted.choices[0].finish.reason == "length"


async def test_an_end_token_ends_the_answer_and_is_not_shown(
    service: Service, oracle: Oracle
) -> None:
    ids = oracle.tokenizer.encode(PROMPT)
    tokens = oracle.greedy(ids, 20)
    place = tokens.index(tokens[7])

    answer = await ask(
        service, completion(PROMPT, only(GREEDY, ignore_eos=False, end_id=tokens[7]))
    )

    choice = answer.choices[0]
    assert choice.text == continued(oracle, ids, tokens[:place])
    assert choice.finish is not None
    assert (choice.finish.reason, choice.finish.native) == ("stop", "eos_token")


async def test_stop_tokens_and_stop_words_end_the_answer(service: Service, oracle: Oracle) -> None:
    ids = oracle.tokenizer.encode(PROMPT)
    tokens = oracle.greedy(ids, 20)

    by_token = await ask(service, completion(PROMPT, only(GREEDY, stop_token_ids=(tokens[5],))))
    by_word = await ask(
        service, completion(PROMPT, only(GREEDY, stop_words=((tokens[4], tokens[5]),)))
    )

    finish = by_token.choices[0].finish
    assert finish is not None
    assert (finish.reason, finish.native, finish.stop_match) == ("stop", "stop_sequence", tokens[5])
    assert by_token.usage is not None
    assert by_token.usage.completion_tokens == tokens.index(tokens[5]) + 1
    finish = by_word.choices[0].finish
    assert finish is not None
    assert finish.native == "stop_sequence"
    assert by_word.usage is not None
    assert by_word.usage.completion_tokens == 6


@pytest.mark.parametrize("length", [1, 2, 5])
async def test_a_stop_string_is_never_shown_not_even_in_part(service: Service, length: int) -> None:
    whole = (await ask(service, completion(PROMPT, GREEDY))).choices[0].text
    assert whole is not None
    stop = whole[6 : 6 + length]

    batches = await events(service, completion(PROMPT, only(GREEDY, stop=("never", stop))))

    shown = "".join(event.text for event in batches if isinstance(event, TextDelta))
    assert shown == whole[: whole.index(stop)]
    finish = batches[-2]
    assert getattr(finish, "stop_match", None) == stop


async def test_min_tokens_keep_an_answer_from_ending(service: Service, oracle: Oracle) -> None:
    first = oracle.greedy(oracle.tokenizer.encode(PROMPT), 1)[0]
    sampling = only(GREEDY, ignore_eos=False, end_id=first, min_tokens=4)

    answer = await ask(service, completion(PROMPT, sampling))

    assert answer.usage is not None
    assert answer.usage.completion_tokens is not None
    assert answer.usage.completion_tokens >= 4


async def test_echo_and_suffix_frame_the_answer(service: Service) -> None:
    plain = await ask(service, completion(PROMPT, GREEDY))
    request = CompletionRequest(
        model=MODEL, prompts=(PROMPT,), sampling=GREEDY, echo=True, append_suffix="!"
    )

    framed = await ask(service, request)

    assert framed.choices[0].text == f"{PROMPT}{plain.choices[0].text}!"


async def test_log_probabilities_come_with_the_text_that_they_belong_to(
    service: Service, oracle: Oracle
) -> None:
    sampling = only(GREEDY, logprobs=True, top_logprobs=3)

    answer = await ask(service, completion(PROMPT, sampling))

    choice = answer.choices[0]
    assert len(choice.logprobs) == 20
    for one in choice.logprobs:
        assert one.top[0].id == one.id
        assert len(one.top) == 3
        assert one.logprob is not None
        assert one.logprob <= 0
    shown = [one for one in choice.logprobs if one.id not in oracle.tokenizer.specials]
    raw = b"".join(bytes(one.bytes or one.token.encode()) for one in shown)
    assert raw.decode(errors="replace") == choice.text
    assert choice.finish is not None
    assert choice.finish.cum_logprob == pytest.approx(sum(o.logprob or 0 for o in choice.logprobs))


async def test_best_of_shows_the_likeliest_answers_best_first(service: Service) -> None:
    sampling = only(SEEDED, logprobs=True)
    every = await ask(service, completion(PROMPT, only(sampling, n=5)))
    scores = {
        choice.text: (choice.finish.cum_logprob or 0) for choice in every.choices if choice.finish
    }
    best = sorted(scores, key=lambda text: scores[text], reverse=True)

    answer = await ask(service, completion(PROMPT, only(sampling, n=2, best_of=5)))

    assert [choice.text for choice in answer.choices] == best[:2]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 40


async def test_a_late_reader_gets_the_counts_of_every_step(service: Service) -> None:
    stream = service.generate(
        TokenRequest(model=MODEL, tokens=(5, 6, 7), sampling=GREEDY, stream=True),
        model=MODEL,
        tenant="",
    )
    counts: list[int] = []
    seen = 0
    async with aclosing(stream):
        async for batch in stream:
            for event in batch:
                if isinstance(event, Tokens):
                    seen += len(event.ids)
                if isinstance(event, Usage):
                    counts.append(event.completion_tokens or 0)
                    assert event.completion_tokens == seen
            await asyncio.sleep(0.2)

    assert sorted(set(counts)) == list(range(1, 21))


async def test_a_token_request_gets_every_token_by_its_id(service: Service, oracle: Oracle) -> None:
    ids = oracle.tokenizer.encode(PROMPT)
    request = TokenRequest(model=MODEL, tokens=tuple(ids), sampling=GREEDY, stream=True)

    got = [event for event in await events(service, request) if isinstance(event, Tokens)]

    tokens = oracle.greedy(ids, 20)
    assert [event.ids for event in got] == [(token,) for token in tokens]
    assert "".join(event.text for event in got) == continued(oracle, ids, tokens)
    assert all(event.elapsed_ms > 0 for event in got)


async def test_a_repeated_prompt_is_counted_as_cached_for_the_same_tenant_only(
    service: Service,
) -> None:
    request = chat("a prompt long enough to fill several blocks of the cache " * 2, GREEDY)

    usages = [(await ask(service, request, tenant=tenant)).usage for tenant in ("a", "a", "b")]

    assert [usage is not None and (usage.cached_tokens or 0) > 0 for usage in usages] == [
        False,
        True,
        False,
    ]


async def test_several_choices_compute_their_prompt_once(service: Service) -> None:
    request = completion(
        "another prompt that fills several blocks of it all " * 2, only(GREEDY, n=4)
    )
    before = service.stats()[MODEL].computed_tokens

    answer = await ask(service, request)

    assert answer.usage is not None
    assert answer.usage.prompt_tokens is not None
    computed = service.stats()[MODEL].computed_tokens - before
    assert computed < 2 * answer.usage.prompt_tokens + 4 * 20
    assert len({choice.text for choice in answer.choices}) == 1


async def test_two_models_of_one_engine_answer_side_by_side(folder: Folder) -> None:
    names = ("llama", "qwen3")
    models = tuple(ModelConfig(name=name, path=str(folder(name))) for name in names)
    prompts = {name: Oracle(folder(name)).tokenizer.encode(PROMPT) for name in names}

    async with serving(config(folder("llama"), models=models)) as service:
        answers = await asyncio.gather(
            *(ask(service, completion(PROMPT, GREEDY), model=name) for name in names)
        )

    for name, answer in zip(names, answers, strict=True):
        oracle = Oracle(folder(name))
        tokens = oracle.greedy(prompts[name], 20)
        assert answer.choices[0].text == continued(oracle, prompts[name], tokens)


async def test_the_checkpoints_recommended_sampling_is_the_default(folder: Folder) -> None:
    settings = config(folder("greedy"))
    silent = Sampling(max_tokens=8, ignore_eos=True)

    async with serving(settings) as service:
        answers = [
            (await ask(service, chat(PROMPT, sampling))).choices[0].text
            for sampling in (silent, only(silent, temperature=0.0), only(silent, do_sample=True))
        ]

    assert answers[0] == answers[1]
    assert answers[2] != answers[0]


async def test_a_developer_message_is_the_system_message_of_a_template_without_developers(
    service: Service,
) -> None:
    answers = [
        await ask(
            service,
            ChatRequest(
                model=MODEL,
                messages=(
                    Message(role=role, content="be brief"),
                    Message(role="user", content="x"),
                ),
                sampling=GREEDY,
            ),
        )
        for role in ("developer", "system")
    ]

    assert answers[0].choices[0].text == answers[1].choices[0].text
