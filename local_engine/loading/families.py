"""Families of models whose layers this engine does not compute, and why; without torch.

Their config.json shows it. What only the loaded layers show is found by the trial of `Runner`.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Final, cast

from strowger_gateway.schemas.errors import InvalidConfig

Config = Mapping[str, object]

ELSEWHERE: Final = "serve it with another engine, such as vLLM, and add that as a provider"

RECURRENT: Final = (
    "it keeps a recurrent state next to or instead of keys and values, which this engine does not"
)

REASONS: Final[Sequence[tuple[Callable[[Config], bool], str]]] = (
    (
        lambda config: bool(config.get("index_topk") or config.get("index_n_heads")),
        "its layers choose with an indexer (index_topk) which tokens they attend to, and this "
        "engine keeps no keys for indexers",
    ),
    (
        lambda config: config.get("model_type") == "longcat_flash",
        "each of its layers attends twice, and this engine keeps the keys and values of one "
        "attention per layer",
    ),
    (
        lambda config: config.get("model_type") == "nemotron",
        "transformers' code of this family keeps from its attention what this engine passes to it",
    ),
    (
        lambda config: config.get("model_type") in PADDED_POSITIONS,
        "it counts positions from behind the number of its padding token and leaves padding out, "
        "and this engine counts them from 0",
    ),
    (
        lambda config: bool(config.get("cross_attention_layers")),
        "some of its layers attend to an image, which this engine does not read",
    ),
    (
        lambda config: str(config.get("model_type")).endswith("_assistant"),
        "it drafts tokens for a larger model, whose keys and values it needs",
    ),
    (
        lambda config: config.get("model_type") == "gemma3n" and find_spec("timm") is None,
        "transformers needs the packages timm and pillow for its images; install them, or take "
        "its language model alone (gemma3n_text)",
    ),
    (lambda config: bool(RECURRENT_LAYERS & _kinds(config)), RECURRENT),
)

RECURRENT_LAYERS: Final = frozenset(
    {"linear_attention", "conv", "mamba", "mamba2", "recurrent", "short_conv", "hybrid"}
)
"""Of `layer_types`: the gated delta net, short convolutions and state space models."""

PADDED_POSITIONS: Final = frozenset(
    {
        *("camembert", "data2vec-text", "roberta", "roberta-prelayernorm", "xlm-roberta"),
        *("xlm-roberta-xl", "xmod"),
    }
)
"""Of `model_type`: encoders of RoBERTa's kind, set up to generate (`is_decoder`)."""


def refuse_family(path: str, config: Config, text: Config) -> None:
    """config: of config.json; text: its part for the language model. Raises InvalidConfig."""
    for matches, reason in REASONS:
        if matches(text) or matches(config):
            raise refused_family(path, str(config.get("model_type")), reason)


def refused_family(path: str, family: str, reason: str) -> InvalidConfig:
    return InvalidConfig((f"the model at {path} is a {family}: {reason}; {ELSEWHERE}",))


def _kinds(config: Config) -> set[str]:
    found = config.get("layer_types")
    return {str(kind) for kind in cast(list[object], found)} if isinstance(found, list) else set()
