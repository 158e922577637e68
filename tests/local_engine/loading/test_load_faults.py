"""Whatever goes wrong while a model loads becomes one sentence that names it, with the remedy."""

import pytest
import torch

from strowger_gateway.local_engine.loading.load_faults import model_named
from strowger_gateway.schemas.errors import InvalidConfig

FAULTS: dict[str, tuple[Exception, str]] = {
    "memory": (
        MemoryError(),
        "does not fit into memory (MemoryError); free memory, take a",
    ),
    "a device's memory": (
        torch.OutOfMemoryError("Tried to allocate 2 GiB"),
        "does not fit into memory (Tried to allocate 2 GiB); free memory",
    ),
    "a package": (
        ImportError("GPTQ needs optimum: pip install optimum"),
        "it needs a package that this engine does not use (GPTQ needs optimum: pip install "
        "optimum); serve it with another engine",
    ),
    "an attribute": (
        AttributeError("'Linear' object has no attribute 'weight'"),
        "AttributeError: 'Linear' object has no attribute 'weight'; this engine does not support",
    ),
    "a key": (KeyError("rope_type"), "KeyError: 'rope_type'; this engine does not support it"),
    "several lines": (RuntimeError("one\ntwo\n" + "x" * 999), "RuntimeError: one two xxx"),
    "recursion": (RecursionError("maximum depth"), "RecursionError: maximum depth; this engine"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_an_exception_becomes_a_sentence_with_the_model_and_the_remedy(case: str) -> None:
    fault, said = FAULTS[case]

    with pytest.raises(InvalidConfig) as refused, model_named("mine", "/models/mine"):
        raise fault

    (problem,) = refused.value.problems
    assert problem.startswith("mine: the model at /models/mine cannot be served: ")
    assert said in problem
    assert "\n" not in problem
    assert len(problem) < 700


def test_a_refusal_that_names_no_model_gets_its_name_and_a_remedy() -> None:
    with pytest.raises(InvalidConfig) as refused, model_named("mine", "/models/mine"):
        raise InvalidConfig(("the model's layers cannot be run here: it has its own mask",))

    assert str(refused.value) == (
        "mine: the model at /models/mine: the model's layers cannot be run here: it has its own "
        "mask; serve it with another engine, such as vLLM, and add that as a provider"
    )
