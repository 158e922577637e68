"""Prompt tuning: rows of a table act as transformers' inputs_embeds."""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import msgspec
import pytest
import torch

from strowger_gateway.local_engine.execution.prompt_tuning import table_rows
from strowger_gateway.local_engine.server.model_host import ServedModel
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import PromptTable, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs, hosted, resolve_adapters
from tests.local_engine.execution.test_equality import COUNT, GREEDY
from tests.local_engine.peft.random_adapters import plain_model, wire
from tests.local_engine.services import MODEL
from tests.local_engine.tiny import VOCABULARY as V
from tests.local_engine.tiny import save_model

HIDDEN, ROWS = 32, 6
ONE_BLOCK = 16 * 2 * 2 * 2 * 8 * 4
PROMPTS = (
    [V, V + 1, V + 2, 17, 18],
    [9, 8, V + 5, 7, V, V, 6],
    [*range(30, 60), V + 3, V + 4, 21],
    [40, 41, 42],
)
Wanted = tuple[Path, list[list[int]]]


def random_table(seed: int) -> torch.Tensor:
    return torch.randn(ROWS, HIDDEN, generator=torch.Generator().manual_seed(seed))


TABLES = (random_table(1), random_table(2))


def table(tensor: torch.Tensor, rows: int = ROWS) -> PromptTable:
    return PromptTable(table=wire(tensor), vocab_size=rows)


def request(tokens: Sequence[int], tensor: torch.Tensor) -> TokenRequest:
    return TokenRequest(model=MODEL, tokens=tuple(tokens), prompt_table=table(tensor))


def expected(folder: Path, prompt: Sequence[int], rows: torch.Tensor) -> list[int]:
    """Return what transformers generates from the embeddings."""
    model = plain_model(folder)
    ids = torch.tensor(prompt)
    embedded = model.get_input_embeddings()(ids.clamp(max=V - 1)).detach()
    virtual = ids >= V
    embedded[virtual] = rows[ids[virtual] - V]
    out = model.generate(  # pyright: ignore  # transformers annotates no argument
        inputs_embeds=embedded.unsqueeze(0),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        max_new_tokens=COUNT,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return cast(list[int], out[0].tolist())  # pyright: ignore  # as above


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Wanted]:
    """By family: a model, created once, and transformers' answer to each prompt and table."""

    @cache
    def of(family: str) -> Wanted:
        base = save_model(tmp_path_factory.mktemp(family), family, tie_word_embeddings=False)
        return base, [expected(base, prompt, rows) for prompt in PROMPTS for rows in TABLES]

    return of


@pytest.fixture(scope="module")
def reader(folder: Folder) -> ServedModel:
    """For requests that are read but not run."""
    return hosted(folder("llama"))


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"max_step_tokens": 5, "prefix_cache": False}, {"kv_cache": 7 * ONE_BLOCK}],
    ids=["whole", "chunked", "preempted"],
)
def test_a_table_gives_the_answers_of_inputs_embeds_in_any_batch(
    family: str, changes: dict[str, object], wanted: Callable[[str], Wanted]
) -> None:
    """llama runs without transformers' modules, gemma with them."""
    base, generated = wanted(family)
    model = hosted(base, **changes)
    runs = Runs(model.lane)

    for prompt in PROMPTS:
        for rows in TABLES:
            runs.add(prompt, GREEDY, conditions=resolve_adapters(model, request(prompt, rows)))

    answers = runs.finish()
    assert answers == generated
    assert answers[0] != answers[1]
    assert (model.lane.stats().preemptions > 0) == ("kv_cache" in changes)


def test_a_row_may_be_a_token_of_the_models_own(folder: Folder) -> None:
    model = hosted(folder("llama"))
    own = plain_model(folder("llama")).get_input_embeddings()(torch.arange(10, 10 + ROWS)).detach()
    runs = Runs(model.lane)

    plain = runs.add([5, 12, 6], GREEDY)
    virtual = [5, V + 2, 6]
    table = runs.add(virtual, GREEDY, conditions=resolve_adapters(model, request(virtual, own)))

    runs.finish()
    assert runs.tokens(table) == runs.tokens(plain)


def test_tables_never_share_keys_and_values_with_others(folder: Folder) -> None:
    model = hosted(folder("llama"))
    prompt = [V + i % ROWS for i in range(40)]
    runs = Runs(model.lane)
    cached: list[int] = []

    for seed in (1, 2, 1):
        conditions = resolve_adapters(model, request(prompt, random_table(seed)))
        id = runs.add(prompt, GREEDY, conditions=conditions)
        runs.finish()
        cached.append(runs.cached[id])

    assert cached == [0, 0, 32]
    assert runs.tokens(1) == runs.tokens(3) != runs.tokens(2)


def test_penalties_see_no_tokens_in_the_rows_of_a_table(folder: Folder) -> None:
    model = hosted(folder("llama"))
    rows = random_table(3)
    penalised = msgspec.structs.replace(GREEDY, repetition_penalty=1.5, no_repeat_ngram_size=2)
    prompt = [V, V + 1, V, V + 1, 33, V]
    runs = Runs(model.lane)

    id = runs.add(prompt, penalised, conditions=resolve_adapters(model, request(prompt, rows)))

    runs.finish()
    assert len(runs.tokens(id)) == COUNT
    assert max(runs.tokens(id)) < V


@pytest.mark.parametrize(
    "shape", [(ROWS, HIDDEN), (1, ROWS, HIDDEN), (ROWS * HIDDEN,)], ids=["rows", "batch", "flat"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_table_has_rows_in_any_of_three_shapes(
    shape: tuple[int, ...], dtype: torch.dtype, reader: ServedModel
) -> None:
    rows = random_table(4)

    conditions = resolve_adapters(reader, request([V], rows.to(dtype).reshape(shape)))

    assert conditions.table is not None
    torch.testing.assert_close(conditions.table.cpu(), rows.to(dtype).float())


def test_bfloat16_rows_are_read(reader: ServedModel) -> None:
    rows = random_table(4).bfloat16()
    data = rows.view(torch.int16).numpy().tobytes()
    sent = PromptTable(
        table=msgspec.structs.replace(wire(rows.half()), dtype="bfloat16", data=data),
        vocab_size=ROWS,
    )
    token_request = TokenRequest(model=MODEL, tokens=(V,), prompt_table=sent)

    conditions = resolve_adapters(reader, token_request)

    assert conditions.table is not None
    torch.testing.assert_close(conditions.table.cpu(), rows.float())


def read_whole(model: ServedModel, token_request: TokenRequest) -> None:
    """Read a request as the service does: shapes first, then numbers."""
    model.reader.read(token_request)
    resolve_adapters(model, token_request)


TABLE, COUNT_OF_ROWS = "prompt_embedding_table", "prompt_vocab_size"
REFUSED = [
    (table(torch.zeros(ROWS, 31)), TABLE, "a row has 31 numbers; it must have 32"),
    (table(torch.zeros(2, ROWS, HIDDEN)), TABLE, r"shape \[2, 6, 32\] must be"),
    (table(torch.zeros(100)), TABLE, "100 numbers are not a multiple of 32"),
    (table(torch.zeros(0, HIDDEN), 0), TABLE, "the table has no rows"),
    (table(torch.zeros(ROWS, HIDDEN), 5), COUNT_OF_ROWS, "5, but the table has 6 rows"),
    (table(torch.zeros(ROWS, HIDDEN).int()), TABLE, "dtype int32 is not supported; send float16"),
    (table(torch.full((ROWS, HIDDEN), torch.inf)), TABLE, "a number is infinite or NaN"),
    (table(torch.full((ROWS, HIDDEN), torch.nan)), TABLE, "a number is infinite or NaN"),
]


@pytest.mark.parametrize(("sent", "field", "why"), REFUSED)
def test_tables_that_cannot_be_used_are_refused_by_field(
    sent: PromptTable, field: str, why: str, reader: ServedModel
) -> None:
    token_request = TokenRequest(model=MODEL, tokens=(5,), prompt_table=sent)

    with pytest.raises(InvalidRequest, match=f"{field}: {why}") as caught:
        read_whole(reader, token_request)

    assert caught.value.param == field


def test_ids_end_with_the_table_and_without_one_with_the_vocabulary(reader: ServedModel) -> None:
    sampling = Sampling(max_tokens=1)
    last = TokenRequest(
        model=MODEL,
        tokens=(V + ROWS - 1,),
        sampling=sampling,
        prompt_table=table(random_table(1)),
    )

    assert reader.reader.read(last).prompts == ((V + ROWS - 1,),)
    with pytest.raises(InvalidRequest, match=rf"token {V + ROWS} must be within 0 and {V + 5}"):
        reader.reader.read(msgspec.structs.replace(last, tokens=(V + ROWS,)))
    with pytest.raises(InvalidRequest, match=rf"token {V} must be within 0 and {V - 1}"):
        reader.reader.read(TokenRequest(model=MODEL, tokens=(V,), sampling=sampling))


def test_a_model_whose_layers_use_token_ids_takes_no_table() -> None:
    with pytest.raises(InvalidRequest, match="not supported by this model"):
        table_rows(table(random_table(1)), 0)
