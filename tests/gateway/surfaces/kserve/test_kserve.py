"""TensorRT-LLM's two tables over the wire: Triton's own client, a gateway and a real engine.

The rows that tests quote: https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html
"""

import asyncio
import functools
from collections.abc import Mapping
from itertools import pairwise
from typing import cast

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.gateway.serving import Serving
from tests.gateway.surfaces.kserve.triton import Answered, Array, Refused, infer
from tests.gateway.surfaces.kserve.triton_requests import (
    HIDDEN,
    INPUT_IDS,
    VOCABULARY,
    biased,
    embeddings,
    flag,
    integer,
    number,
    tokens,
    unsigned,
    words,
)

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {here}
models:
  - {{name: tiny, backends: [{{provider: here, model: tiny}}]}}
"""
END = 2
LENGTH = 12


async def ask(gateway: Serving, tensors: Mapping[str, Array], *, binary: bool = True) -> Answered:
    """Over the mandatory tensors of every request."""
    every = {
        "input_ids": tokens(INPUT_IDS),
        "request_output_len": np.array([[LENGTH]], dtype=np.int32),
        **tensors,
    }
    return await asyncio.to_thread(infer, gateway.url, "tiny", every, binary=binary)


async def ids(gateway: Serving, **tensors: Array) -> list[int]:
    return rows(await ask(gateway, tensors))[0]


def rows(answer: Answered) -> list[list[int]]:
    """output_ids, each row as long as sequence_length says."""
    output: list[list[int]] = answer.tensors["output_ids"].tolist()
    lengths: list[int] = answer.tensors["sequence_length"].tolist()
    return [row[:length] for row, length in zip(output, lengths, strict=True)]


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
async def test_a_request_of_the_two_mandatory_tensors(gateway: Serving, binary: bool) -> None:
    """request_output_len [1,1] int32_t "Max number of output tokens"."""
    answer = await ask(gateway, {}, binary=binary)

    output, length = answer.tensors["output_ids"], answer.tensors["sequence_length"]
    assert (output.shape, output.dtype) == ((1, LENGTH), np.int32)
    assert (length.tolist(), length.dtype) == ([LENGTH], np.int32)
    assert set(answer.tensors) == {"output_ids", "sequence_length"}


@pytest.mark.parametrize("length", [1, 5])
async def test_request_output_len(gateway: Serving, length: int) -> None:
    found = await ids(gateway, request_output_len=np.array([[length]], dtype=np.int32))

    assert len(found) == length


async def test_input_ids(gateway: Serving) -> None:
    """input_ids [1, num_input_tokens] int32_t "Tensor of input tokens"."""
    likely = await ids(gateway)

    rest = await ids(gateway, input_ids=tokens([*INPUT_IDS, *likely[:4]]))

    assert rest[: LENGTH - 4] == likely[4:]


async def test_streaming(gateway: Serving) -> None:
    """streaming [1] bool "When false return only when the full generation has completed"."""
    with pytest.raises(Refused) as caught:
        await ask(gateway, {"streaming": flag(True)})

    assert caught.value.status == 400
    assert "generate_stream" in caught.value.message
    assert await ids(gateway, streaming=flag(False)) == await ids(gateway)


async def test_beam_width(gateway: Serving) -> None:
    """beam_width [1] int32_t; output_ids [beam_width, num_output_tokens]."""
    answer = await ask(gateway, {"beam_width": integer(3), "return_log_probs": flag(True)})

    sums: NDArray[np.float32] = answer.tensors["cum_log_probs"].astype(np.float32)
    assert answer.tensors["output_ids"].shape == (3, LENGTH)
    assert answer.tensors["sequence_length"].shape == (3,)
    assert answer.tensors["output_log_probs"].shape == (1, 3, LENGTH)
    assert sums.shape == (1, 3)
    assert sums[0].tolist() == sorted(sums[0].tolist(), reverse=True)
    assert len({tuple(row) for row in rows(answer)}) == 3


async def test_temperature(gateway: Serving) -> None:
    """temperature [1] float; it only counts where runtime_top_k or runtime_top_p samples."""
    likely = await ids(gateway)
    open_k = {"runtime_top_k": integer(500), "random_seed": unsigned(5)}

    sharp = await ids(gateway, temperature=number(0.01), **open_k)
    flat = await ids(gateway, temperature=number(30.0), **open_k)

    assert sharp == likely != flat
    assert await ids(gateway, temperature=number(30.0)) == likely


@pytest.mark.parametrize(
    "filters",
    [
        {"runtime_top_k": integer(1)},
        {"runtime_top_p": number(1e-6)},
        {"runtime_top_p": number(0.0)},
        {"runtime_min_p": number(1.0), "runtime_top_p": number(1.0)},
    ],
    ids=["top_k", "top_p", "top_p 0", "min_p"],
)
async def test_runtime_top_k_and_runtime_top_p(
    gateway: Serving, filters: Mapping[str, Array]
) -> None:
    hot = {"temperature": number(30.0), "random_seed": unsigned(5)}

    assert await ids(gateway, **hot, **filters) == await ids(gateway)
    assert await ids(gateway, **hot, runtime_top_p=number(1.0)) != await ids(gateway)


async def test_runtime_top_p_decay_min_and_reset_ids(gateway: Serving) -> None:
    hot = {"temperature": number(30.0), "seed": unsigned(5), "runtime_top_p": number(0.9)}
    decay = {"runtime_top_p_decay": number(1e-6), "runtime_top_p_min": number(1e-6)}

    plain = await ids(gateway, **hot)
    decayed = await ids(gateway, **hot, **decay)
    reset = await ids(gateway, **hot, **decay, runtime_top_p_reset_ids=integer(plain[0]))

    assert decayed[0] == plain[0]
    assert decayed[1] != plain[1], "after one step only the likeliest is left"
    assert reset[1] == plain[1]


async def test_len_penalty_and_pad_id(gateway: Serving) -> None:
    """len_penalty [1] float, pad_id [1] int32_t: rows of unequal length are filled up."""
    # After this prompt, which means nothing, the model is sure of no token.
    prompt = tokens([1, 389, 230, 300, 230, 26, 32, 230, 20, 230, 27, 30, 40])
    likely = await ids(gateway, input_ids=prompt)
    beams = {"input_ids": prompt, "beam_width": integer(4), "end_id": integer(likely[2])}

    short = await ask(gateway, {**beams, "pad_id": integer(7)})
    bare = await ask(gateway, beams)
    long = await ask(gateway, {**beams, "len_penalty": number(8.0)})

    assert len(rows(short)[0]) == 3
    assert len(rows(long)[0]) > 3
    assert rows(short) == rows(bare)
    for answer, pad in ((short, 7), (bare, likely[2])):
        for row, whole in zip(rows(answer), answer.tensors["output_ids"].tolist(), strict=True):
            assert set(whole[len(row) :]) <= {pad}
    lengths = {len(row) for row in rows(short)}
    assert len(lengths) > 1


async def test_early_stopping(gateway: Serving) -> None:
    """early_stopping [1] int: token 200 goes on, and 201, nearly as likely, ends a beam."""
    values = np.full(VOCABULARY, -60.0, dtype=np.float32)
    values[200], values[201] = 0.0, -1.0
    beams = {
        "beam_width": integer(2),
        "len_penalty": number(8.0),
        "embedding_bias": values.reshape(1, -1),
        "end_id": integer(201),
    }

    early = await ask(gateway, {**beams, "early_stopping": integer(1)})
    never = await ask(gateway, {**beams, "early_stopping": integer(2)})

    assert max(map(len, rows(early))) < max(map(len, rows(never))) == LENGTH


async def test_repetition_penalty(gateway: Serving) -> None:
    bias = {"embedding_bias": biased({7: 60.0, 200: 30.0})}

    plain = await ids(gateway, **bias)
    penalised = await ids(gateway, **bias, repetition_penalty=number(1e6))

    assert plain == [7] * LENGTH
    assert len({*penalised}) == LENGTH
    assert not {*penalised} & {*INPUT_IDS}


async def test_min_length(gateway: Serving) -> None:
    """min_length [1] int32_t, and min_tokens, its name today."""
    likely = await ids(gateway)
    end = {"end_id": integer(likely[1])}

    plain = await ids(gateway, **end)
    longer = [await ids(gateway, **end, **{name: integer(8)}) for name in MIN]

    assert plain == likely[:2]
    assert longer[0] == longer[1]
    assert len(longer[0]) >= 8
    assert likely[1] not in longer[0][:8]


MIN = ("min_length", "min_tokens")


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
async def test_presence_penalty_and_frequency_penalty(gateway: Serving, name: str) -> None:
    bias = {"embedding_bias": biased({7: 60.0})}

    found = await ids(gateway, **bias, **{name: number(100.0)})

    assert found[0] == 7
    assert 7 not in found[1:]


async def test_no_repeat_ngram_size(gateway: Serving) -> None:
    bias = {"embedding_bias": biased({7: 60.0})}

    found = await ids(gateway, **bias, no_repeat_ngram_size=integer(2))

    pairs = list(pairwise((*INPUT_IDS, *found)))
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("name", ["random_seed", "seed"])
async def test_random_seed(gateway: Serving, name: str) -> None:
    """random_seed [1] uint64_t; `seed` is its name today."""
    hot = {"temperature": number(30.0), "runtime_top_p": number(1.0)}

    first, again = [await ids(gateway, **hot, **{name: unsigned(2**64 - 1)}) for _ in range(2)]
    other = await ids(gateway, **hot, **{name: unsigned(6)})

    assert first == again != other


async def test_end_id(gateway: Serving) -> None:
    """end_id [1] int32_t "If not specified, defaults to -1"."""
    likely = await ids(gateway)
    bias = {"embedding_bias": biased({END: 100.0})}

    named = await ids(gateway, end_id=integer(likely[3]))
    silent = await ids(gateway, **bias)
    own = await ids(gateway, **bias, end_id=integer(END))

    assert named == likely[: likely.index(likely[3]) + 1]
    assert silent == [END] * LENGTH
    assert own == [END]


async def test_embedding_bias(gateway: Serving) -> None:
    """embedding_bias [1, vocab_size] float."""
    assert await ids(gateway, embedding_bias=biased({123: 90.0})) == [123] * LENGTH


async def test_bad_words_list(gateway: Serving) -> None:
    """bad_words_list [1, 2, num_bad_words] int32_t."""
    likely = await ids(gateway)

    found = await ids(gateway, bad_words_list=words([likely[:2]]))

    assert found[0] == likely[0]
    assert tuple(likely[:2]) not in set(pairwise(found))


async def test_stop_words_list(gateway: Serving) -> None:
    """stop_words_list [1, 2, num_stop_words] int32_t."""
    likely = await ids(gateway)

    found = await ids(gateway, stop_words_list=words([likely[2:5], [likely[-1], 5, 6]]))

    assert found == likely[:5]


async def test_prompt_embedding_table_and_prompt_vocab_size(gateway: Serving) -> None:
    """prompt_embedding_table float16: the model's own rows, so that the answer is the same."""
    table = embeddings()[list(INPUT_IDS[:8])].astype(np.float16)
    virtual = [*range(VOCABULARY, VOCABULARY + 8), *INPUT_IDS[8:]]
    conditions = {"input_ids": tokens(virtual), "prompt_vocab_size": integer(8)}

    shaped = await ids(gateway, **conditions, prompt_embedding_table=table[None])
    flat = await ids(gateway, **conditions, prompt_embedding_table=table.reshape(-1))
    other = await ids(gateway, **conditions, prompt_embedding_table=table[None] * np.float16(-9))

    assert shaped == flat == await ids(gateway)
    assert other != shaped


async def test_lora_task_id_lora_weights_and_lora_config(gateway: Serving) -> None:
    """lora_config [num_lora_modules_layers, 3] int32_t "[ module_id, layer_idx, adapter_size ]"."""
    rank = 4
    random = np.random.default_rng(3)
    weights = random.normal(size=(2, 2 * rank * HIDDEN)).astype(np.float16)
    config = np.array([[1, 0, rank], [4, 1, rank]], dtype=np.int32)
    task = {"lora_task_id": unsigned(2**63)}

    first = await ids(gateway, **task, lora_weights=weights, lora_config=config)
    cached = await ids(gateway, **task)
    with pytest.raises(Refused) as caught:
        await ids(gateway, lora_task_id=unsigned(9))

    assert first == cached != await ids(gateway)
    assert caught.value.status == 400
    assert "9 is not in the adapter cache" in caught.value.message


async def test_return_log_probs(gateway: Serving) -> None:
    """output_log_probs [1, beam_width, num_output_tokens], cum_log_probs [1, beam_width]."""
    likely = await ids(gateway)

    answer = await ask(gateway, {"return_log_probs": flag(True), "end_id": integer(likely[3])})

    assert answer.tensors["output_log_probs"].dtype == np.float32
    each: NDArray[np.float32] = answer.tensors["output_log_probs"].astype(np.float32)
    sums: NDArray[np.float32] = answer.tensors["cum_log_probs"].astype(np.float32)
    assert each.shape == (1, 1, len(rows(answer)[0]))
    assert float(each.max()) <= 0
    np.testing.assert_allclose(sums, each.sum(-1), atol=1e-4)


async def test_return_context_logits_and_return_generation_logits(gateway: Serving) -> None:
    """context_logits [1, num_input_tokens, V]; generation_logits [1, beam_width, n, V]."""
    names = ("return_context_logits", "return_generation_logits", "return_log_probs")

    answer = await ask(gateway, {name: flag(True) for name in names})

    context, made = answer.tensors["context_logits"], answer.tensors["generation_logits"]
    assert context.shape == (1, len(INPUT_IDS), VOCABULARY)
    assert made.shape == (1, 1, LENGTH, VOCABULARY)
    assert context.dtype == made.dtype == np.float32
    assert made[0, 0].argmax(-1).tolist() == rows(answer)[0]
    assert int(context[0, -1].argmax()) == rows(answer)[0][0]
    logits: NDArray[np.float64] = made[0, 0].astype(np.float64)
    chosen = logits.max(-1) - np.log(np.exp(logits).sum(-1))
    reported: NDArray[np.float64] = answer.tensors["output_log_probs"].astype(np.float64)
    np.testing.assert_allclose(reported[0, 0], chosen, atol=1e-3)


@pytest.mark.parametrize("right", [4, 2])
async def test_draft_input_ids_and_draft_logits(gateway: Serving, right: int) -> None:
    """draft_input_ids [num_draft_tokens] int32_t, draft_logits [num_draft_tokens, vocab_size]."""
    likely = await ids(gateway)
    guess = [*likely[:right], *[1] * (4 - right)]
    logits = np.full((4, VOCABULARY), -30.0, dtype=np.float32)
    logits[range(4), guess] = 30.0
    draft = {"draft_input_ids": np.array(guess, dtype=np.int32)}

    assert await ids(gateway, **draft) == likely
    assert await ids(gateway, **draft, draft_logits=logits) == likely


async def test_num_return_sequences_and_the_tensors_that_count_tokens(gateway: Serving) -> None:
    """Of tensorrtllm_backend's names for newer things."""
    hot = {"runtime_top_p": number(1.0), "temperature": number(30.0)}
    counts = {"return_num_input_tokens": flag(True), "return_num_output_tokens": flag(True)}

    several = await ask(gateway, {**hot, **counts, "num_return_sequences": integer(3)})
    best = await ask(gateway, {"beam_width": integer(4), "num_return_sequences": integer(2)})
    whole = await ask(gateway, {"exclude_input_in_output": flag(False)})

    assert several.tensors["output_ids"].shape == (3, LENGTH)
    assert several.tensors["num_input_tokens"].tolist() == [len(INPUT_IDS)]
    assert several.tensors["num_output_tokens"].tolist() == [3 * LENGTH]
    assert best.tensors["output_ids"].shape == (2, LENGTH)
    assert rows(whole)[0] == [*INPUT_IDS, *await ids(gateway)]


async def test_the_request_id_comes_back(gateway: Serving) -> None:
    """ "a uint64_t requestId" is KServe's id."""
    every = {"input_ids": tokens(INPUT_IDS), "request_output_len": integer(1)}

    answer = await asyncio.to_thread(infer, gateway.url, "tiny", every, request_id="12345")

    assert answer.json["id"] == "12345"
    assert (answer.json["model_name"], answer.json["model_version"]) == ("tiny", "1")


@pytest.mark.parametrize(
    "way",
    [
        {"later": True},
        {"version": "1"},
        {"compression": "gzip"},
        {"compression": "deflate", "binary": False},
        {"headers": {"accept-encoding": "gzip"}},
        {"timeout_us": 30_000_000},
        {"outputs": {"sequence_length": False, "output_ids": True}},
        {"outputs": {"output_ids": False}, "binary": False},
    ],
    ids=str,
)
async def test_every_kind_of_request_of_tritons_client(
    gateway: Serving, way: Mapping[str, object]
) -> None:
    """infer and async_infer, versions, compressed bodies, JSON and binary in one answer."""
    likely = await ids(gateway)
    every = {"input_ids": tokens(INPUT_IDS), "request_output_len": integer(LENGTH)}

    answer = await asyncio.to_thread(functools.partial(infer, **way), gateway.url, "tiny", every)

    assert answer.tensors["output_ids"].tolist() == [likely]


async def test_outputs_are_the_requested_ones_each_in_its_own_format(gateway: Serving) -> None:
    every = {"input_ids": tokens(INPUT_IDS), "request_output_len": integer(LENGTH)}
    wanted = {"sequence_length": False, "output_ids": True}

    answer = await asyncio.to_thread(infer, gateway.url, "tiny", every, outputs=wanted)

    outputs = cast("list[Mapping[str, object]]", answer.json["outputs"])
    assert [one["name"] for one in outputs] == list(wanted)
    assert outputs[0]["data"] == [LENGTH]
    assert outputs[1]["parameters"] == {"binary_data_size": 4 * LENGTH}


async def test_a_request_that_takes_longer_than_it_may_is_an_error(gateway: Serving) -> None:
    """Triton's timeout parameter is microseconds."""
    every = {"input_ids": tokens(INPUT_IDS), "request_output_len": integer(900)}

    with pytest.raises(Refused) as caught:
        await asyncio.to_thread(infer, gateway.url, "tiny", every, timeout_us=1_000)

    assert caught.value.status == 504


async def test_a_seeds_request_goes_in_plain_json_too(gateway: Serving) -> None:
    """With the seed's own shapes, and data nested as the shapes say."""
    inputs = [
        {"name": "request_output_len", "shape": [1, 1], "datatype": "INT32", "data": [[LENGTH]]},
        {
            "name": "input_ids",
            "shape": [1, len(INPUT_IDS)],
            "datatype": "INT32",
            "data": [list(INPUT_IDS)],
        },
        {
            "name": "bad_words_list",
            "shape": [1, 2, 5],
            "datatype": "INT32",
            "data": [[[5, 7, 3, 9, 2], [3, 5, -1, -1, -1]]],
        },
    ]
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        answer = await client.post("/v2/models/tiny/infer", json={"inputs": inputs})

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    output = {one["name"]: one for one in answer.json()["outputs"]}
    assert output["output_ids"]["data"] == await ids(gateway)
    assert output["output_ids"]["shape"] == [1, LENGTH]
    assert output["sequence_length"]["datatype"] == "INT32"
