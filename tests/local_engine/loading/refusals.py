"""The sentence with which an engine refuses a folder."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from strowger_gateway.local_engine.config import DTypeName, ModelConfig
from strowger_gateway.local_engine.server.embedding_host import host_embedders
from strowger_gateway.local_engine.server.model_host import host
from strowger_gateway.schemas.errors import InvalidConfig
from tests.local_engine.services import config

QUANTIZED = r"its weights are quantized \({}.*\); this engine computes weights in float32, "
ELSEWHERE = "serve it with another engine"


def refusal(
    folder: Path,
    task: Literal["generate", "embed"] = "generate",
    *,
    dtype: DTypeName = "float32",
) -> str:
    """The sentence with which an engine refuses the folder."""
    model = ModelConfig(name="tiny", path=str(folder), task=task)
    chosen = msgspec.structs.replace(config(folder), models=(model,), dtype=dtype)
    start = host_embedders if task == "embed" else host
    with pytest.raises(InvalidConfig) as refused:
        start(chosen, lambda _: None)
    (problem,) = refused.value.problems
    assert str(folder) in problem
    assert "\n" not in problem
    return problem
