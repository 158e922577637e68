"""Whatever a model's files contain, it is served, or refused in a sentence that names it."""

import os
import random
from pathlib import Path

import msgspec
import pytest

from strowger_gateway.schemas.errors import InvalidConfig
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import hosted
from tests.local_engine.loading.broken_checkpoints import JSON, copied, replaced, write

NAMES = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json")
VALUES = msgspec.json.decode(b'[null, -1, "x", [], {}, 0, [[]], {"a": null}]', type=list[object])
DAMAGED = int(os.environ.get("STROWGER_CHECKPOINTS", "200"))
"""Models with random damage of a nightly run: `make nightly-fuzz CHECKPOINTS=5000`."""

CONTENTS = {
    "a list": b"[]",
    "nothing": b"",
    "null": b"null",
    "zero bytes": b"\0" * 50,
    "another encoding": b"\xff\xfe{\0}\0",
    "a long number": b"9" * 5000,
    "depth": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
}


def served_or_refused(folder: Path) -> None:
    try:
        hosted(folder)
    except InvalidConfig as refused:
        (problem,) = refused.problems
        assert str(folder) in problem
        assert len(problem) < 1500
        assert "\n" not in problem


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_with_other_content_is_read_or_refused_in_a_sentence(
    name: str, content: str, folder: Folder, tmp_path: Path
) -> None:
    odd = copied(folder("llama"), tmp_path / "model")
    replaced(odd / name, CONTENTS[content])

    served_or_refused(odd)


@pytest.mark.parametrize("field", ["eos_token_id", "rope_parameters", "layer_types", "head_dim"])
def test_a_field_with_another_value_is_taken_or_refused_in_a_sentence(
    field: str, folder: Folder, tmp_path: Path
) -> None:
    odd = copied(folder("llama"), tmp_path / "model")
    found = msgspec.json.decode((odd / "config.json").read_bytes(), type=JSON)
    for value in (-1, "x", {"a": None}):
        write(odd / "config.json", {**found, field: value})
        served_or_refused(odd)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_every_field_with_every_value_is_taken_or_refused_in_a_sentence(
    name: str, folder: Folder, tmp_path: Path
) -> None:
    odd = copied(folder("llama"), tmp_path / "model")
    found = msgspec.json.decode((odd / name).read_bytes(), type=JSON)
    for field in found:
        for value in VALUES:
            write(odd / name, {**found, field: value})
            served_or_refused(odd)


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Flip, cut, double, insert or remove bytes, most of them near the beginning."""
    place = min(int(draw.expovariate(1 / 300)), len(content))
    if draw.random() < 0.3:
        place = draw.randrange(len(content) + 1)
    count = draw.choice((1, 1, 4, 60))
    end = min(place + count, len(content))
    match draw.choice(("flip", "cut", "double", "insert", "remove")):
        case "flip":
            return (
                content[:place]
                + bytes(b ^ 1 << draw.randrange(8) for b in content[place:end])
                + content[end:]
            )
        case "cut":
            return content[:place]
        case "double":
            return content[:end] + content[place:]
        case "insert":
            return content[:place] + draw.randbytes(count) + content[place:]
        case _:
            return content[:place] + content[end:]


@pytest.mark.parametrize(
    ("first", "count"), [(0, 3), pytest.param(3, DAMAGED, marks=pytest.mark.nightly)]
)
def test_files_with_random_damage_are_read_or_refused_in_a_sentence(
    first: int, count: int, folder: Folder, tmp_path: Path
) -> None:
    whole = folder("llama")
    names = sorted(path.name for path in whole.iterdir())
    for seed in range(first, first + count):
        draw = random.Random(seed)
        odd = copied(whole, tmp_path / str(seed))
        for name in draw.sample(names, draw.choice((1, 1, 2))):
            replaced(odd / name, damaged((whole / name).read_bytes(), draw))
        try:
            served_or_refused(odd)
        except Exception as exc:
            exc.add_note(f"seed {seed}")
            raise
