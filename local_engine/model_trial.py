"""Start an engine's models on trial, and answer one prompt.

It loads the models exactly as an engine does, on the device that the engine would use, so that it
refuses what the engine refuses.
"""

import traceback
from typing import Final

import torch
from transformers.utils import logging as transformers_logging

from strowger_gateway.local_engine.config import EngineConfig
from strowger_gateway.local_engine.execution.jobs import Job
from strowger_gateway.local_engine.loading.load_faults import cause
from strowger_gateway.local_engine.ops.trial_log import recorded, trying
from strowger_gateway.local_engine.protocol.diagnosis import Diagnosis
from strowger_gateway.local_engine.sampling.sampling_params import resolve_params
from strowger_gateway.local_engine.scheduling.sequence import new_sequence
from strowger_gateway.local_engine.server.embedding_host import host_embedders
from strowger_gateway.local_engine.server.model_host import ServedModel, host
from strowger_gateway.local_engine.start import check_models
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.sampling import Sampling

PROMPT: Final = 256
DECODED: Final = 16
"""Tokens of the prompt, unless the context is shorter, and of the answer."""

_ID: Final = 1 << 60


def diagnose(config: EngineConfig) -> Diagnosis:
    """Load all models and let each generating one answer."""
    transformers_logging.disable_progress_bar()
    lines: list[str] = []
    problem = ""
    with recorded() as trials:
        try:
            check_models(config)
            host_embedders(config, lines.append)
            for served in host(config, lines.append).values():
                if served.name == served.base:
                    _answer(served)
        except InvalidConfig as exc:
            problem = "; ".join(exc.problems)
        except Exception as exc:  # noqa: BLE001  as the engine ends when it starts
            traceback.print_exc()
            problem = f"the engine cannot start: {cause(exc)}"
    return Diagnosis(lines=tuple(lines), trials=tuple(trials), problem=problem)


@torch.inference_mode()
def _answer(served: ServedModel) -> None:
    """Generate greedily after a prompt. Raises InvalidConfig if the device cannot."""
    length = max(1, min(PROMPT, served.context - DECODED))
    sequence = new_sequence(
        id=_ID,
        prompt=[37 * place % served.vocabulary for place in range(length)],
        max_total=min(length + DECODED, served.context),
    )
    params = resolve_params(
        Sampling(temperature=0.0), vocabulary=served.vocabulary, end_ids=(), seed=0
    )
    served.lane.add(Job(lane=served.name, sequence=sequence, params=params))
    drawn = 0
    for role, enough in (("prompt", 1), ("decode", DECODED)):
        before = drawn
        with trying(role, served.name) as trial:
            while served.lane.busy and drawn < enough:
                for delta in served.lane.step(0.0):
                    drawn += len(delta.drawn)
                    if delta.outcome == "failed":
                        raise InvalidConfig((f"engine.models: {served.name}: {delta.reason}",))
            trial.tried = f"{length if role == 'prompt' else drawn - before} tokens"
