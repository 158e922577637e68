"""Tiny model folders, created once per run, and one CPU thread for all of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers.generation.configuration_utils import GenerationConfig

from tests.local_engine.guided.tool_models import TALKERS, save_talker
from tests.local_engine.tiny import FAMILIES, save_model, save_tokenizer

Folder = Callable[[str], Path]

STRICT = "{{ raise_exception('only the user may speak') }}"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The folder of a tiny model: of a family, or a llama with another tokenizer.

    strict: its template rejects everything. untemplated: it has no template. greedy: its
    generation_config.json disables sampling. A name of TALKERS: one of those.
    """
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        path = tmp_path_factory.mktemp(name)
        save_model(path, name if name in FAMILIES else "llama")
        match name:
            case "strict":
                save_tokenizer(path, template=STRICT)
            case "untemplated":
                (path / "chat_template.jinja").unlink()
            case "greedy":
                GenerationConfig(do_sample=False, eos_token_id=2).save_pretrained(path)  # pyright: ignore[reportUnknownMemberType]  # transformers
            case _ if name in TALKERS:
                save_talker(path, name)
            case _:
                assert name in FAMILIES
        return path

    def cached(name: str) -> Path:
        if name not in made:
            made[name] = make(name)
        return made[name]

    return cached
