"""Every tensor of TensorRT-LLM's request and answer has its effect; tests are named by tensor.

The request: https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html. Adapters
(lora_task_id, lora_weights, lora_config) are in test_request_adapters.py, and so are the tables
(prompt_embedding_table, prompt_vocab_size); drafts in test_drafts.py and test_logits.py.
"""

import math
import struct
from collections.abc import AsyncGenerator, Mapping
from itertools import pairwise

import pytest

from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.events import Event, Tokens
from strowger_gateway.schemas.requests import Draft, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tensors import Tensor, pack_words, unpack_words
from tests.local_engine.conftest import Folder
from tests.local_engine.services import MODEL, ask, config, events, serving
from tests.local_engine.tiny import VOCABULARY

pytestmark = pytest.mark.anyio

INPUT_IDS = (7, 8, 9, 10, 11, 12)
END = 2
SEEDED: dict[str, object] = {"temperature": 1.0, "seed": 5}


@pytest.fixture(scope="module")
async def service(folder: Folder) -> AsyncGenerator[Service, None]:
    async with serving(config(folder("llama"))) as running:
        yield running


def request(sampling: Mapping[str, object], *, prompt: tuple[int, ...] = INPUT_IDS) -> TokenRequest:
    terms = {"max_tokens": 12, "end_id": -1, **sampling}
    return TokenRequest(model=MODEL, tokens=prompt, sampling=Sampling(**terms))  # pyright: ignore[reportArgumentType]  # a table of fields


async def one(service: Service, **sampling: object) -> Choice:
    answer = await ask(service, request(sampling))
    return answer.choices[0]


async def tokens(service: Service, **sampling: object) -> list[int]:
    return (await one(service, **sampling)).token_ids


async def greedy(service: Service, **sampling: object) -> list[int]:
    return await tokens(service, temperature=0.0, **sampling)


@pytest.mark.parametrize("length", [1, 5, 12])
async def test_request_output_len_bounds_the_answer(service: Service, length: int) -> None:
    choice = await one(service, max_tokens=length)

    assert len(choice.token_ids) == length
    assert choice.finish is not None
    assert choice.finish.native == "length"


async def test_input_ids_are_what_is_continued(service: Service) -> None:
    found = await greedy(service)
    terms = {"temperature": 0.0, "max_tokens": 8}

    longer = await ask(service, request(terms, prompt=(*INPUT_IDS, *found[:4])))
    other = await ask(service, request(terms, prompt=(30, 31)))

    assert longer.choices[0].token_ids == found[4:]
    assert other.choices[0].token_ids != found[:8]


async def test_streaming_brings_the_same_tokens_one_by_one(service: Service) -> None:
    found: list[Event] = await events(service, request({"temperature": 0.0}))

    pieces = [event.ids for event in found if isinstance(event, Tokens)]
    assert [id for piece in pieces for id in piece] == await greedy(service)
    assert [len(piece) for piece in pieces] == [1] * 12


@pytest.mark.parametrize("width", [2, 4])
async def test_beam_width_gives_so_many_answers_best_first(service: Service, width: int) -> None:
    answer = await ask(service, request({"beam_width": width, "logprobs": True}))

    scores = [score(choice) for choice in answer.choices]
    assert len(answer.choices) == width
    assert len({tuple(choice.token_ids) for choice in answer.choices}) == width
    assert scores == sorted(scores, reverse=True)


def score(choice: Choice) -> float:
    assert choice.finish is not None
    assert choice.finish.cum_logprob is not None
    return choice.finish.cum_logprob


async def test_temperature_flattens_or_sharpens(service: Service) -> None:
    best = await greedy(service, max_tokens=1)

    async def hits(temperature: float) -> int:
        drawn = [
            await tokens(service, temperature=temperature, seed=seed, max_tokens=1)
            for seed in range(30)
        ]
        return drawn.count(best)

    assert await hits(0.01) == 30
    assert await hits(30.0) < 6


@pytest.mark.parametrize(
    "terms", [{"top_k": 1}, {"top_p": 0.0}, {"top_p": 1e-6}], ids=["top_k", "top_p 0", "top_p"]
)
async def test_runtime_top_k_and_top_p_cut_down_to_the_likeliest(
    service: Service, terms: dict[str, float]
) -> None:
    assert await tokens(service, **SEEDED, **terms) == await greedy(service)
    assert await tokens(service, **SEEDED) != await greedy(service)


async def test_len_penalty_prefers_long_or_short_beams(service: Service) -> None:
    likely = await greedy(service)

    async def length(penalty: float) -> int:
        beams = {"beam_width": 4, "length_penalty": penalty, "end_id": likely[2]}
        return len(await tokens(service, **beams))

    assert await length(0.0) == 3
    assert await length(8.0) == 12


async def test_early_stopping_ends_with_the_first_hypotheses(service: Service) -> None:
    """Token 200 continues; 201, nearly as likely, ends a hypothesis at every step."""
    values = [-60.0] * VOCABULARY
    values[200], values[201] = 0.0, -1.0
    beams = {
        "beam_width": 2,
        "length_penalty": 8.0,
        "embedding_bias": row(values),
        "end_id": 201,
    }

    early = await ask(service, request({**beams, "early_stopping": True}))
    late = await ask(service, request({**beams, "early_stopping": "never"}))

    assert longest(early) < longest(late) == 12


def longest(answer: Answer) -> int:
    return max(len(choice.token_ids) for choice in answer.choices)


async def test_repetition_penalty_makes_tokens_of_prompt_and_answer_rare(
    service: Service,
) -> None:
    bias = {7: 60.0, 200: 30.0}

    plain = await greedy(service, logit_bias=bias)
    penalised = await greedy(service, logit_bias=bias, repetition_penalty=1e6)

    assert plain == [7] * 12
    assert len({*penalised}) == 12
    assert not {*penalised} & {*INPUT_IDS}


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
async def test_presence_and_frequency_penalties_look_at_the_answer(
    service: Service, name: str
) -> None:
    bias = {7: 60.0}

    found = await greedy(service, logit_bias=bias, **{name: 100.0})

    assert found[0] == 7, "the prompt's own 7 does not count"
    assert 7 not in found[1:]


async def test_no_repeat_ngram_size_lets_no_ngram_come_twice(service: Service) -> None:
    found = await greedy(service, logit_bias={7: 60.0}, no_repeat_ngram_size=2)

    pairs = list(pairwise((*INPUT_IDS, *found)))
    assert len(pairs) == len(set(pairs))
    assert await greedy(service, logit_bias={7: 60.0}) == [7] * 12


async def test_min_length_keeps_the_end_away(service: Service) -> None:
    likely = await greedy(service)

    plain = await greedy(service, end_id=likely[1])
    longer = await greedy(service, end_id=likely[1], min_tokens=8)

    assert len(plain) == 2
    assert len(longer) >= 8
    assert likely[1] not in longer[:8]


async def test_random_seed_repeats_an_answer(service: Service) -> None:
    first, again = [await tokens(service, **SEEDED) for _ in range(2)]
    large = await tokens(service, temperature=1.0, seed=2**64 - 1)
    negative = await tokens(service, temperature=1.0, seed=-1)

    assert first == again != large
    assert large == negative, "the same 64 bits"


async def test_end_id_ends_the_answer_and_minus_one_is_none(service: Service) -> None:
    likely = await greedy(service)

    choice = await one(service, temperature=0.0, end_id=likely[3])
    endless = await greedy(service, logit_bias={END: 100.0}, end_id=-1)
    own = await ask(
        service,
        TokenRequest(
            model=MODEL,
            tokens=INPUT_IDS,
            sampling=Sampling(temperature=0.0, logit_bias={END: 100.0}, max_tokens=12),
        ),
    )

    assert choice.token_ids == likely[: likely.index(likely[3]) + 1]
    assert choice.finish is not None
    assert choice.finish.native == "eos_token"
    assert endless == [END] * 12
    assert own.choices[0].token_ids == [END], "the model's own end counts where none is named"


async def test_pad_id_changes_no_answer_because_nothing_is_padded(service: Service) -> None:
    assert await greedy(service, pad_id=9) == await greedy(service)


@pytest.mark.parametrize("shape", [(VOCABULARY,), (1, VOCABULARY)])
async def test_embedding_bias_moves_every_token(service: Service, shape: tuple[int, ...]) -> None:
    values = [0.0] * VOCABULARY
    values[123] = 90.0

    assert await greedy(service, embedding_bias=row(values, shape)) == [123] * 12


def row(values: list[float], shape: tuple[int, ...] = (VOCABULARY,)) -> Tensor:
    return Tensor(dtype="float32", shape=shape, data=struct.pack(f"<{VOCABULARY}f", *values))


async def test_bad_words_list_forbids_sequences_and_not_their_parts(service: Service) -> None:
    likely = await greedy(service)
    words = unpack_words(*pack_words([likely[:2]]))

    found = await greedy(service, bad_word_ids=words)

    assert found[0] == likely[0]
    assert found[1] != likely[1]
    assert tuple(likely[:2]) not in set(pairwise(found))


async def test_stop_words_list_ends_the_answer_after_a_sequence(service: Service) -> None:
    likely = await greedy(service)
    words = unpack_words(*pack_words([likely[2:5], [likely[11], 5, 6]]))

    choice = await one(service, temperature=0.0, stop_words=words)

    assert choice.token_ids == likely[:5]
    assert choice.finish is not None
    assert choice.finish.native == "stop_sequence"


async def test_return_log_probs_gives_output_log_probs_and_cum_log_probs(
    service: Service,
) -> None:
    silent = await one(service, **SEEDED)
    choice = await one(service, **SEEDED, logprobs=True, n=1)

    values = [entry.logprob for entry in choice.logprobs]
    assert [entry.id for entry in choice.logprobs] == choice.token_ids == silent.token_ids
    assert all(value is not None and value <= 0 for value in values)
    assert score(choice) == pytest.approx(math.fsum(value or 0.0 for value in values), abs=1e-4)
    assert silent.logprobs == []


async def test_log_probs_go_with_every_token_of_output_ids_and_so_with_the_end(
    service: Service,
) -> None:
    likely = await greedy(service)

    choice = await one(service, temperature=0.0, end_id=likely[3], logprobs=True)

    values = [entry.logprob for entry in choice.logprobs]
    ended = likely[: likely.index(likely[3]) + 1]
    assert [entry.id for entry in choice.logprobs] == choice.token_ids == ended
    assert score(choice) == pytest.approx(math.fsum(value or 0.0 for value in values), abs=1e-4)


async def test_output_ids_and_sequence_length_agree_for_every_answer(service: Service) -> None:
    answer = await ask(service, request({"n": 3, **SEEDED}))

    assert answer.usage is not None
    assert answer.usage.completion_tokens == sum(len(c.token_ids) for c in answer.choices) == 36
    assert len({tuple(choice.token_ids) for choice in answer.choices}) == 3


async def test_draft_input_ids_and_draft_logits_are_verified_in_one_step(
    service: Service,
) -> None:
    likely = await greedy(service)
    certain = [[-30.0] * VOCABULARY for _ in range(4)]
    for row, token in zip(certain, likely, strict=False):
        row[token] = 30.0
    logits = Tensor(
        dtype="float32",
        shape=(4, VOCABULARY),
        data=struct.pack(f"<{4 * VOCABULARY}f", *(value for row in certain for value in row)),
    )
    sampling = Sampling(temperature=0.0, max_tokens=12, end_id=-1)

    found: list[list[Event]] = []
    for draft in (
        Draft(tokens=tuple(likely[:4])),
        Draft(tokens=tuple(likely[:4]), logits=logits),
        Draft(tokens=(*likely[:2], 1, 1), logits=logits),
    ):
        sent = TokenRequest(model=MODEL, tokens=INPUT_IDS, sampling=sampling, draft=draft)
        found.append(await events(service, sent))

    batches = [[event.ids for event in one if isinstance(event, Tokens)] for one in found]
    assert [[id for piece in pieces for id in piece] for pieces in batches] == [likely] * 3
