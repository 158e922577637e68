"""Answers with an adapter equal those of a model with merged weights."""

from itertools import product
from pathlib import Path

import pytest

from strowger_gateway.local_engine.config import LoraConfig
from strowger_gateway.local_engine.server.model_host import ServedModel, host
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import PLAIN, Runs, resolve_adapters
from tests.local_engine.execution.test_equality import COUNT, GREEDY, prompts
from tests.local_engine.peft.random_adapters import Pairs, random_pairs, save_adapter, save_merged
from tests.local_engine.services import MODEL, Oracle, config
from tests.local_engine.tiny import save_model

NAMES = ("", "a", "b")
ONE_BLOCK = 16 * 2 * 2 * 2 * 8 * 4


def adapters(base: Path, path: Path) -> dict[str, Pairs]:
    """`b` has another rank than `a`, and changes few layers."""
    made = {
        "a": random_pairs(base, 1),
        "b": random_pairs(base, 2, rank=3, leaves=("k_proj", "down_proj")),
    }
    for name, pairs in made.items():
        save_adapter(path / name, pairs)
        save_merged(path / f"{name}-merged", base, pairs)
    return made


def serve(base: Path, path: Path, **changes: object) -> dict[str, ServedModel]:
    loras = tuple(
        LoraConfig(name=name, path=str(path / name), base=MODEL) for name in NAMES if name
    )
    return host(config(base, loras=loras, **changes), lambda _: None)


def mixed(served: dict[str, ServedModel]) -> list[list[int]]:
    """Run each prompt three times, without and with each adapter, all in one batch."""
    runs = Runs(served[MODEL].lane)
    for prompt in prompts():
        for name in NAMES:
            request = TokenRequest(model=name or MODEL, tokens=tuple(prompt))
            conditions = resolve_adapters(served[name or MODEL], request)
            runs.add(prompt, GREEDY, conditions=conditions)
    return runs.finish()


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text"])
def test_adapters_in_one_batch_answer_as_merged_weights_do(family: str, tmp_path: Path) -> None:
    """Untied, because a tied tiny gemma only repeats its last token."""
    base = save_model(tmp_path / "base", family, tie_word_embeddings=False)
    adapters(base, tmp_path)
    oracles = [Oracle(base), Oracle(tmp_path / "a-merged"), Oracle(tmp_path / "b-merged")]

    together = mixed(serve(base, tmp_path))
    chunked = mixed(serve(base, tmp_path, max_step_tokens=7, prefix_cache=False))
    cramped = serve(base, tmp_path, kv_cache=8 * ONE_BLOCK)
    preempted = mixed(cramped)

    expected = [
        oracle.greedy(prompt, COUNT, guess)
        for (prompt, oracle), guess in zip(product(prompts(), oracles), together, strict=True)
    ]
    assert together == expected
    assert chunked == expected
    assert preempted == expected
    assert cramped[MODEL].lane.stats().preemptions > 0
    assert all(expected[i::3] != expected[j::3] for i, j in ((0, 1), (0, 2), (1, 2)))


def test_without_an_adapter_an_engine_that_has_some_gives_the_same_numbers(
    folder: Folder, tmp_path: Path
) -> None:
    base = folder("llama")
    adapters(base, tmp_path)
    sampling = Sampling(temperature=0.0, max_tokens=4, ignore_eos=True, logprobs=True)
    probabilities: list[list[float | None]] = []
    for served in (serve(base, tmp_path), host(config(base), lambda _: None)):
        runs = Runs(served[MODEL].lane)

        id = runs.add([5, 6, 7], sampling, conditions=PLAIN)

        runs.finish()
        probabilities.append([drawn.logprob for drawn in runs.drawn[id]])

    assert probabilities[0] == probabilities[1]


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_adapters_never_share_keys_and_values_with_others(
    prefix_cache: bool, folder: Folder, tmp_path: Path
) -> None:
    base = folder("llama")
    adapters(base, tmp_path)
    served = serve(base, tmp_path, prefix_cache=prefix_cache)
    prompt = [5 + i for i in range(40)]
    runs = Runs(served[MODEL].lane)
    cached: list[int] = []

    for name in (*NAMES, *NAMES):
        request = TokenRequest(model=name or MODEL, tokens=tuple(prompt))
        conditions = resolve_adapters(served[name or MODEL], request)
        id = runs.add(prompt, GREEDY, conditions=conditions)
        runs.finish()
        cached.append(runs.cached[id])

    assert cached == [0, 0, 0, *([32] * 3 if prefix_cache else [0] * 3)]
    assert [runs.tokens(i) for i in (1, 2, 3)] == [runs.tokens(i) for i in (4, 5, 6)]
