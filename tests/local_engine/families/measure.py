"""What the engine makes of one family's random model: the same answers as transformers, or why not.

The engine generates greedily for prompts of 3 to 50 tokens, in steps of 7 tokens, all together.
transformers then computes the same tokens in one pass with its own eager attention.
"""

import resource
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, cast

import msgspec
import torch
from msgspec import Struct
from torch import Tensor
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.execution.lane_runs import Runs, hosted
from tests.local_engine.families.random_models import declare, save_random
from tests.local_engine.tiny import VOCABULARY

LENGTHS: Final = (3, 8, 14, 23, 36, 50)
DRAWN: Final = 9
"""Tokens of each prompt, and of each answer."""

CACHE: Final = 1 << 25
"""Bytes of keys and values."""

CLOSE: Final = 2e-3
"""The greatest difference of a log probability between two float32 computations that are equal."""

MEMORY_BYTES: Final = 12 << 30
CPU_S: Final = 150

GREEDY: Final = Sampling(
    temperature=0.0, max_tokens=DRAWN, ignore_eos=True, logprobs=True, top_logprobs=1
)

Kind = Literal["equal", "refused", "wrong", "crash", "not built"]


class Outcome(Struct, frozen=True, kw_only=True):
    """detail: the refusal or problem. gap: the greatest difference of a log probability."""

    family: str
    kind: Kind
    detail: str = ""
    gap: float = 0.0


def measure(family: str, folder: Path) -> Outcome:
    """Write the family's model into an empty folder and ask the engine and transformers."""
    declare(family, folder)
    try:
        save_random(family, folder)
    except Exception as exc:  # noqa: BLE001  classes fail in many ways for small values
        return _declared(family, folder, exc)
    try:
        model = hosted(folder, max_step_tokens=7, prefix_cache=False, kv_cache=CACHE)
        runs = Runs(model.lane)
        prompts = [_prompt(length) for length in LENGTHS]
        for prompt in prompts:
            runs.add(prompt, GREEDY)
        runs.finish()
    except InvalidConfig as exc:
        return Outcome(family=family, kind="refused", detail=_sentence(exc, folder))
    except Exception as exc:  # noqa: BLE001  it is what is measured
        traceback.print_exc()
        return Outcome(family=family, kind="crash", detail=f"{type(exc).__name__}: {exc}")
    if failed := [reason for reason in runs.reasons.values() if reason]:
        return Outcome(family=family, kind="crash", detail=failed[0])
    return _compared(family, folder, prompts, runs)


def _compared(family: str, folder: Path, prompts: Sequence[list[int]], runs: Runs) -> Outcome:
    """Compare the answers with transformers' choice after each of their tokens."""
    reference = cast(
        PreTrainedModel,
        AutoModelForCausalLM.from_pretrained(  # pyright: ignore[reportUnknownMemberType]  # transformers
            folder, attn_implementation="eager", dtype=torch.float32
        ),
    ).eval()
    different = 0
    gap = 0.0
    for place, prompt in enumerate(prompts, 1):
        answer = runs.tokens(place)
        expected = _log_probabilities(reference, [*prompt, *answer])[len(prompt) - 1 : -1]
        for row, drawn in zip(expected, runs.drawn[place], strict=True):
            assert drawn.logprob is not None
            ours, best = float(row[drawn.token]), float(row.max())
            gap = max(gap, abs(ours - drawn.logprob))
            different += best - ours > CLOSE
    if different or gap > CLOSE:
        total = len(prompts) * DRAWN
        detail = f"{different} of {total} tokens differ from transformers'"
        return Outcome(family=family, kind="wrong", detail=detail, gap=gap)
    return Outcome(family=family, kind="equal", gap=gap)


def _declared(family: str, folder: Path, problem: Exception) -> Outcome:
    """Return the refusal of a family by its configuration alone, for which no model was made."""
    try:
        load(str(folder), device="cpu", dtype=torch.float32)
    except InvalidConfig as exc:
        said = _sentence(exc, folder)
        if "safetensors" not in said:
            return Outcome(family=family, kind="refused", detail=said)
    except Exception as exc:  # noqa: BLE001  it is what is measured
        return Outcome(family=family, kind="crash", detail=f"{type(exc).__name__}: {exc}")
    said = " ".join(str(problem).split())[:300]
    return Outcome(family=family, kind="not built", detail=f"{type(problem).__name__}: {said}")


def _sentence(exc: InvalidConfig, folder: Path) -> str:
    return "; ".join(exc.problems).replace(str(folder), "PATH")


def _prompt(length: int) -> list[int]:
    return [5 + (37 * place + 11 * length) % (VOCABULARY - 5) for place in range(length)]


@torch.inference_mode()
def _log_probabilities(model: PreTrainedModel, ids: list[int]) -> Tensor:
    """Return [T, V]."""
    output = model(input_ids=torch.tensor([ids]), use_cache=False)
    return cast(Tensor, output.logits)[0].float().log_softmax(-1)


def main() -> None:
    """Print the outcome of the family that the first argument names."""
    limit_process()
    with tempfile.TemporaryDirectory() as folder:
        print(msgspec.json.encode(measure(sys.argv[1], Path(folder))).decode())


def limit_process() -> None:
    """Some classes hang, or take all memory, for values that they are not made for."""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


if __name__ == "__main__":
    main()
