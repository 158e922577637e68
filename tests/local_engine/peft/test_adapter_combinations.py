"""Adapters and tables combined with choices, beams, drafts and logits."""

from pathlib import Path

import msgspec
import pytest
import torch

from strowger_gateway.local_engine.config import LoraConfig
from strowger_gateway.schemas.events import Event, Logits, Tokens
from strowger_gateway.schemas.requests import Draft, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.execution.lane_runs import Runs, hosted, resolve_adapters
from tests.local_engine.execution.test_equality import GREEDY
from tests.local_engine.execution.test_prompt_tuning import expected, random_table, request
from tests.local_engine.peft.random_adapters import random_pairs, save_adapter, save_merged
from tests.local_engine.services import MODEL, config, events, serving
from tests.local_engine.tiny import VOCABULARY as V
from tests.local_engine.tiny import save_model

pytestmark = pytest.mark.anyio

PROMPT = tuple(range(50, 70))
SEEDED = Sampling(temperature=0.8, seed=3, max_tokens=10, ignore_eos=True)
BEAMS = Sampling(beam_width=3, n=3, max_tokens=10, ignore_eos=True)
PLAIN = TokenRequest(model=MODEL, tokens=PROMPT, sampling=SEEDED)
REQUESTS = [
    msgspec.structs.replace(PLAIN, sampling=msgspec.structs.replace(SEEDED, n=3)),
    msgspec.structs.replace(PLAIN, sampling=msgspec.structs.replace(SEEDED, best_of=3)),
    msgspec.structs.replace(PLAIN, sampling=BEAMS),
    msgspec.structs.replace(PLAIN, draft=Draft(tokens=(7, 8, 9))),
]
LOGITS = msgspec.structs.replace(PLAIN, return_context_logits=True, return_generation_logits=True)


def ids(got: list[Event]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for event in got:
        if isinstance(event, Tokens):
            found.setdefault(event.index, []).extend(event.ids)
    return found


async def test_choices_beams_drafts_and_logits_are_those_of_merged_weights(tmp_path: Path) -> None:
    base = save_model(tmp_path / "base", "llama", tie_word_embeddings=False)
    pairs = random_pairs(base, 1)
    loras = (LoraConfig(name="a", path=str(save_adapter(tmp_path / "a", pairs)), base=MODEL),)
    merged = save_merged(tmp_path / "merged", base, pairs)

    async with serving(config(base, loras=loras)) as service:
        ours = [ids(await events(service, each, model="a")) for each in REQUESTS]
        plain = [ids(await events(service, each)) for each in REQUESTS]
        our_logits = await events(service, LOGITS, model="a")
    async with serving(config(merged)) as service:
        expected = [ids(await events(service, each)) for each in REQUESTS]
        expected_logits = await events(service, LOGITS)

    assert ours == expected
    assert all(one != other for one, other in zip(ours, plain, strict=True))
    compare(our_logits, expected_logits)


def compare(ours: list[Event], expected: list[Event]) -> None:
    rows = [
        [numbers(event) for event in got if isinstance(event, Logits)] for got in (ours, expected)
    ]
    assert len(rows[0]) >= 2
    for one, other in zip(*rows, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def numbers(event: Logits) -> torch.Tensor:
    return torch.frombuffer(bytearray(event.tensor.data), dtype=torch.float32)


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_drafts_from_a_prompt_with_rows_of_a_table_change_nothing(
    family: str, tmp_path: Path
) -> None:
    """The lookup finds ids of the table, which an answer cannot contain."""
    base = save_model(tmp_path / "base", family, tie_word_embeddings=False)
    prompt, rows = [7, 8, 9, V, V + 1, V + 2, 7, 8, 9], random_table(1)
    model = hosted(base, draft_tokens=4)
    runs = Runs(model.lane)

    id = runs.add(prompt, GREEDY, conditions=resolve_adapters(model, request(prompt, rows)))

    runs.finish()
    assert runs.tokens(id) == expected(base, prompt, rows)
