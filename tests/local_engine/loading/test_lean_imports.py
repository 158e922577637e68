"""A process that serves models imports what it uses; what is left out is there for who needs it."""

import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from strowger_gateway.local_engine.loading.lean_imports import NAMES, quicken

HEAVY = {
    "torch._dynamo": "torch's compiler, 0.7 s",
    "torch._inductor": "torch's compiler",
    "torch.onnx": "exports models",
    "torch.distributed.tensor": "spreads tensors over processes, 0.3 s",
    "torch.distributed.checkpoint": "saves such tensors",
    "torch.distributed.fsdp": "trains on several devices",
    "torch.utils.tensorboard": "shows how a training goes",
    "accelerate": "trains on several devices",
    "pandas": "nothing that an engine does",
    "scipy": "nothing that an engine does",
    "sklearn": "nothing that an engine does",
    "PIL": "images",
    "torchvision": "images",
    "torchaudio": "sounds",
    "matplotlib": "figures",
    "numpy.testing": "tests",
    "pytest": "tests",
}
"""Modules, and what they would be for. Those that are installed, another package brought."""

PROGRAM = """
import json, sys
from strowger_gateway.local_engine.__main__ import run
from strowger_gateway.local_engine.loading.lean_imports import _Absent

status = run(sys.argv[1:])
seen = {"status": status}
seen["loaded"] = [name for name, it in sys.modules.items() if not isinstance(it, _Absent)]

import torch
from transformers import AutoModelForCausalLM, LlamaModel
from transformers.masking_utils import TransformGetItemToIndex

def function(): ...

seen["before"] = torch.compiler.disable(function) is function
with TransformGetItemToIndex() as mode:
    seen["mode"] = type(mode).__module__
seen["after"] = torch.compiler.disable(function) is function
import torch._dynamo.config
seen["the compiler"] = torch._dynamo is sys.modules["torch._dynamo"]
seen["its settings"] = torch._dynamo.config.recompile_limit > 0
seen["classes"] = [AutoModelForCausalLM.__module__, LlamaModel.__module__]
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a process sees that served a model until it was stopped."""
    folder = tmp_path_factory.mktemp("lean")
    config = folder / "engine.json"
    config.write_text(
        '{"device": "cpu", "dtype": "float32", "threads": 1,'
        ' "models": [{"name": "tiny", "path": "bundled:tiny-chat"}]}'
    )
    command = (sys.executable, "-c", PROGRAM, "--config", str(config), "--socket", "engine.sock")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "ready\n":
                process.terminate()
            elif line.startswith("{"):
                return json.loads(line)
    pytest.fail(f"it ended with {process.returncode}")


def test_an_engine_loads_nothing_that_serving_a_model_has_no_use_for(
    seen: dict[str, object],
) -> None:
    loaded = set(cast("list[str]", seen["loaded"]))

    assert seen["status"] == 0
    assert {"torch", "transformers.modeling_utils"} <= loaded
    assert {name: why for name, why in HEAVY.items() if name in loaded} == {}


def test_a_function_is_marked_for_the_compiler_only_where_it_is_loaded(
    seen: dict[str, object],
) -> None:
    assert (seen["before"], seen["after"]) == (True, False)


def test_who_takes_anything_else_from_the_compiler_gets_all_of_it(seen: dict[str, object]) -> None:
    assert seen["mode"] == "torch._dynamo._trace_wrapped_higher_order_op"
    assert seen["the compiler"] is True
    assert seen["its settings"] is True


def test_transformers_still_finds_each_of_its_names(seen: dict[str, object]) -> None:
    assert seen["classes"] == [
        "transformers.models.auto.modeling_auto",
        "transformers.models.llama.modeling_llama",
    ]
    quick, folder = _again(), _models()
    quicken(quick)

    found = quick.define_import_structure(folder)

    assert found == import_module(NAMES).define_import_structure(folder)
    assert found == quick.define_import_structure(folder / "__init__.py")


def test_transformers_may_change_the_names_that_it_found() -> None:
    quick, folder = _again(), _models() / "llama"
    quicken(quick)
    quick.define_import_structure(folder)[frozenset()].clear()

    assert quick.define_import_structure(folder / "__init__.py")[frozenset()]


def test_another_version_of_transformers_searches_as_it_likes() -> None:
    def pair(first: str, second: str) -> tuple[str, str]:
        return first, second

    none, other = ModuleType("none"), ModuleType("other")
    other.__dict__["fetch__all__"] = other.__dict__["create_import_structure_from_path"] = pair

    quicken(none)
    quicken(other)

    assert not hasattr(none, "fetch__all__")
    assert other.fetch__all__("a\n__all__ = []", "folder") == ("a\n__all__ = []", "folder")
    assert other.create_import_structure_from_path("folder", "deep") == ("folder", "deep")


def _models() -> Path:
    """Return transformers' folder of models."""
    spec = find_spec("transformers.models")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _again() -> ModuleType:
    """The module that searches for names, as it is before it is quickened."""
    spec = find_spec(NAMES)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
