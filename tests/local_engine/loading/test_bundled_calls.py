"""The bundled model calls functions as often rightly as local_engine/bundled/README.md says."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from strowger_gateway.local_engine.bundled import bundled_path
from tools.tiny_chat import asks, corpus, held_out, layout, tool_probes, tool_talk, train

README = Path(bundled_path("tiny-chat")).parent / "README.md"
COUNT = 24
MARGIN = 0.2
"""Other probes than those of the table, and few: three standard deviations of most shares."""

ABILITIES = tuple(tool_probes.probes(0, 1))
OFTEN = 6
"""`make test` measures one in so many abilities, and `make nightly-tests` the others."""


class Loads(Protocol):
    """A transformers class; its own signature has no types."""

    def from_pretrained(self, folder: Path, /) -> object: ...


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.set_num_threads(1)
    return train.load(Path(bundled_path("tiny-chat")))


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    auto = cast(Loads, PreTrainedTokenizerFast)
    return cast(PreTrainedTokenizerFast, auto.from_pretrained(bundled_path("tiny-chat")))


def stated() -> dict[str, float]:
    """The shares of the table, by ability."""
    rows = re.findall(r"^\| (.+?) \| ([\d.]+) % \|", README.read_text(), re.MULTILINE)
    return {ability: float(share) / 100 for ability, share in rows if ability in ABILITIES}


def test_the_table_has_every_ability() -> None:
    assert tuple(stated()) == ABILITIES


@pytest.mark.parametrize(
    "ability",
    [
        pytest.param(ability, marks=() if place % OFTEN == 0 else pytest.mark.nightly)
        for place, ability in enumerate(ABILITIES)
    ],
)
def test_the_model_is_as_good_as_the_table_says(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, ability: str
) -> None:
    right = tool_probes.right(model, tokenizer, tool_probes.probes(99, COUNT)[ability])

    assert sum(right) / COUNT >= stated()[ability] - MARGIN


def test_what_is_measured_was_not_taught() -> None:
    taught = {bare(ask) for ask in drawn_asks()}
    unseen = [
        wording
        for table in (held_out.UNSEEN, held_out.FRESH, held_out.NEWEST)
        for group in table.values()
        for wording in group
    ]

    assert len(taught) > 3000
    assert not taught & {bare(each) for each in (*unseen, *held_out.UNSEEN_OTHERS)}
    cities = {*held_out.UNSEEN_CITIES, *held_out.FRESH_CITIES, *held_out.NEWEST_CITIES}
    assert not cities & set(asks.CITIES)


def drawn_asks() -> Iterator[str]:
    """Questions of the corpus, with the slots of the probes for a city and numbers."""
    rng = random.Random(4)
    for _ in range(3000):
        intent = rng.choice(("weather", "time"))
        yield asks.city_ask(rng, intent, corpus.word, "Paris").text.replace("Paris", "{c}")
        yield (
            asks.sum_ask(rng, corpus.word, 123, 456)
            .text.replace("123", "{a}")
            .replace("456", "{b}")
        )


def bare(text: str) -> str:
    """Without case, punctuation and spaces."""
    return "".join(character for character in text.lower() if character.isalnum())


def test_a_call_with_text_around_it_or_of_another_function_is_not_right() -> None:
    (probe,) = tool_probes.probes(3, 1)["call: sum, unseen wordings"]
    assert probe.call is not None
    call = tool_talk.call_text(probe.call) + layout.END

    assert probe.right(call)
    assert not probe.right("So " + call)
    assert not probe.right(call.removesuffix(layout.END) + call)
    assert not probe.right(call.replace('"name": "', '"name": "x'))
    assert not probe.right("Sorry, I do not know that." + layout.END)
