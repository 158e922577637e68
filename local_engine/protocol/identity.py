"""What identifies the weights and settings on which the draws of an engine's models depend."""

from collections.abc import Mapping

from strowger_gateway.local_engine.config import EngineConfig


def weights_of(engine: EngineConfig) -> Mapping[str, str]:
    """Return the identity of each generating model, by name.

    Engines with equal identities draw the same tokens for the same prompt, seed and tokens so far.
    """
    found = {
        one.name: f"{one.path}@{one.revision} {one.special_tokens_in_prompts} {one.holds_calls} "
        f"{engine.dtype} {engine.device}"
        for one in engine.models
        if one.task == "generate"
    }
    adapted = {one.name: f"{one.path} on {found.get(one.base, '')}" for one in engine.loras}
    return {**found, **adapted}
