"""Whether a checkpoint is made for the task it is configured for; by its files, without torch."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast

from strowger_gateway.local_engine.loading.families import ELSEWHERE
from strowger_gateway.local_engine.loading.weight_files import read_json
from strowger_gateway.schemas.errors import InvalidConfig

Task = Literal["generate", "embed"]

EMBEDS = ("modules.json", "config_sentence_transformers.json")
"""Files that only models of sentence-transformers have."""

SCORES = re.compile(
    r"(Classification|QuestionAnswering|MultipleChoice|NextSentencePrediction|RewardModel"
    r"|ForReward|ForScoring|ForRanking|ForSequenceRegression)$"
)
"""Endings of transformers' classes whose head returns scores."""

GENERATES = re.compile(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration|DoubleHeadsModel)$")

ENCODES = re.compile(r"(ForMaskedLM|ForPreTraining|EncoderModel|TextEncoding|Model)$")
"""Endings of classes without a head for the next token; asked after GENERATES."""

TWO_SIDED = ("use_bidirectional_attention", "is_matryoshka", "matryoshka_dimensions")
"""Fields of config.json that only decoders trained to embed have."""


def refuse_other_task(folder: Path, config: Mapping[str, object], task: Task) -> None:
    """config: the content of config.json. Raises InvalidConfig with the task that fits, if any."""
    named = config.get("architectures")
    names = [str(name) for name in cast(list[object], named)] if isinstance(named, list) else []
    kind = _kind(folder)
    if kind == "CrossEncoder" or (kind != "SentenceTransformer" and names and _scores(names)):
        what = f"a {names[0]}, a classifier or reranker" if names else "a reranker"
        raise _refused(
            folder, f"it is {what}; this engine generates and embeds text only: {ELSEWHERE}"
        )
    if kind not in ("", "CrossEncoder", "SentenceTransformer"):
        raise _refused(folder, f"it is a {kind}, which makes no dense vectors; {ELSEWHERE}")
    problem = ""
    if task == "generate":
        problem = _not_generating(names, config, embeds=bool(kind))
    elif not kind and names and all(map(GENERATES.search, names)) and not _says_embed(config):
        problem = (
            f"it is a {names[0]}, a generating model, and no file says that it embeds; set "
            "task: generate, or add the modules.json of sentence-transformers"
        )
        if config.get("is_encoder_decoder"):
            problem = ""
    if problem:
        raise _refused(folder, problem)


def _not_generating(names: list[str], config: Mapping[str, object], *, embeds: bool) -> str:
    if embeds:
        return "it is a model of sentence-transformers, which embeds text; set task: embed"
    if config.get("is_encoder_decoder"):
        kind = names[0] if names else str(config.get("model_type"))
        return f"it is a {kind}, an encoder-decoder, which this engine does not run; {ELSEWHERE}"
    if names and not any(map(GENERATES.search, names)) and ENCODES.search(names[0]):
        return (
            f"it is a {names[0]}, which has no head to generate text with; set task: embed, or "
            "take a model that generates"
        )
    return ""


def _kind(folder: Path) -> str:
    """Return the class in sentence-transformers; "" for a model of transformers alone."""
    if not any((folder / name).exists() for name in EMBEDS):
        return ""
    read = read_json(folder, EMBEDS[1]) or {}
    return str(read.get("model_type") or "SentenceTransformer")


def _scores(names: list[str]) -> bool:
    return all(SCORES.search(name) for name in names)


def _says_embed(config: Mapping[str, object]) -> bool:
    return config.get("is_causal") is False or any(config.get(name) for name in TWO_SIDED)


def _refused(folder: Path, problem: str) -> InvalidConfig:
    return InvalidConfig((f"the model at {folder} does not fit its task: {problem}",))
