"""Compare the weights of a checkpoint with those that the model needs; no torch here.

transformers fills what a checkpoint lacks with random numbers and leaves out what it does not
know. Both give a model that answers, and answers nonsense, so both are refused by name here,
except for what is known to belong to no layer that computes an answer.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypedDict

from msgspec import Struct

from strowger_gateway.local_engine.loading.weight_files import listed, shown
from strowger_gateway.schemas.errors import InvalidConfig

Shape = tuple[int, ...]


class LoadingReport(TypedDict):
    """What transformers' `output_loading_info` returns.

    mismatched_keys: the name, the stored shape and the needed shape of each.
    """

    missing_keys: set[str]
    unexpected_keys: set[str]
    mismatched_keys: set[tuple[str, Shape, Shape]]


class Extras(Struct, frozen=True, kw_only=True):
    """What a checkpoint may have in addition to the model's weights.

    layers:  of the model; `predictors`: layers behind them that predict further tokens.
    parts:   the model's direct parts; for a model without a head, all else belongs to heads.
    senses:  it sees or hears as well, and only its language model is loaded.
    """

    layers: int = 0
    predictors: int = 0
    parts: frozenset[str] = frozenset()
    senses: bool = False


PREDICTORS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
"""Fields of config.json with the number of layers that predict further tokens (MTP)."""

_MTP = re.compile(r"(^|\.)(mtp|mtp_\w+|nextn\w*|medusa\w*|eagle\w*)\.|(^|\.)v_head\.")
"""Heads that draft further tokens, and the value head that reinforcement learning adds."""

_SENSES = re.compile(
    r"^(model\.)?(vision|visual|image|audio|speech|multi_modal|multimodal|mm_|vq|embed_vision"
    r"|embed_audio)\w*\."
)
"""Parts of a model that reads images or sound, outside its language model."""

_MTP_LAYER = re.compile(r"\.(eh_proj|enorm|hnorm|shared_head)\b")
"""Weights that only a layer for further tokens has."""

_BUFFERS = re.compile(
    r"(^|\.)(inv_freq|cos_cached|sin_cached|position_ids|masked_bias|embed_positions\.weights)$"
    r"|(^|\.)(attn|attention|self_attn|self_attention)\.(bias|masked_bias)$"
    r"|\.(k_scale|v_scale|kv_scale)$"
)
"""Numbers that follow from the configuration, and scales of a quantized cache."""

_LAYER = re.compile(r"(^|\.)(layers?|h|blocks?)\.(\d+)\.")

POOLER = "pooler."
"""Weights that embeddings do not need and a checkpoint may lack."""


def refuse_incomplete(path: str, report: LoadingReport, extras: Extras, *, kind: str) -> None:
    """kind: the model's class. Raises InvalidConfig naming the weights."""
    heads = bool(extras.parts)
    missing = [key for key in report["missing_keys"] if not (heads and key.startswith(POOLER))]
    if missing:
        raise _refused(
            path,
            f"it lacks weights of {kind}: {listed(missing)}; they would be random: download it "
            "again, or take a checkpoint of this class",
        )
    if mismatched := {name: (stored, needed) for name, stored, needed in report["mismatched_keys"]}:
        first = min(mismatched)
        stored, needed = mismatched[first]
        raise _refused(
            path,
            f"its config.json belongs to other weights: {listed(mismatched)} "
            f"({list(stored)} in the file, {list(needed)} by the configuration); take both from "
            "the same place",
        )
    unknown = list(_unknown(report["unexpected_keys"], extras))
    if unknown:
        raise _refused(
            path,
            f"it has weights that {kind} does not use: {listed(unknown)}; its answers would be "
            "wrong without them: take the checkpoint and the config.json from the same place",
        )


def refuse_absent_layers(path: str, names: Collection[str], layers: int) -> None:
    """Refuse weights without a whole layer, which the names alone show. names: of all tensors.

    Of a model with several stacks of layers nothing is known here.
    """
    found = [layer for name in names if (layer := _LAYER.search(name)) is not None]
    if len({layer.string[: layer.start()] for layer in found}) != 1:
        return
    places = {int(layer.group(3)) for layer in found}
    absent = [place for place in range(layers) if place not in places]
    if absent:
        raise _refused(
            path,
            f"it lacks all weights of layers {shown(map(str, absent))}, of {layers}; download it "
            "again, or take the config.json that belongs to these weights",
        )


def layers_of(config: Mapping[str, object]) -> int:
    """Return the number of layers in config.json; 0 if it is in none of the usual fields."""
    names = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    # LongCat counts each layer twice in one of them.
    return min((count for name in names if isinstance(count := config.get(name), int)), default=0)


def predictors_of(config: Mapping[str, object]) -> int:
    counts = [config.get(name) for name in PREDICTORS]
    return max((count for count in counts if isinstance(count, int)), default=0)


def _unknown(keys: Iterable[str], extras: Extras) -> Iterable[str]:
    """Yield the names that belong to the model's layers, or to none that is known."""
    behind: dict[int, list[str]] = {}
    for key in keys:
        if _MTP.search(key) or _BUFFERS.search(key):
            continue
        if extras.senses and _SENSES.search(key):
            continue
        layer = _LAYER.search(key)
        if layer is not None and extras.layers and int(layer.group(3)) >= extras.layers:
            behind.setdefault(int(layer.group(3)), []).append(key)
        elif not extras.parts or _part(key, extras.parts):
            yield key
    for number, place in enumerate(sorted(behind)):
        drafts = any(map(_MTP_LAYER.search, behind[place]))
        if not drafts and number >= extras.predictors:
            yield from behind[place]


def _part(key: str, parts: frozenset[str]) -> bool:
    """True if the weight is inside a part of the model, with or without the model's own name."""
    first, _, rest = key.partition(".")
    return first in parts or rest.partition(".")[0] in parts


def _refused(path: str, problem: str) -> InvalidConfig:
    return InvalidConfig((f"the model at {path} cannot be served: {problem}",))
