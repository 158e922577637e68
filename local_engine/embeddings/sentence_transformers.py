"""Read the sentence-transformers files of a model, which define how a text becomes a vector.

https://sbert.net/docs/sentence_transformer/usage/custom_models.html: modules.json lists the steps,
each with its own folder; sentence_bert_config.json limits the input, and
config_sentence_transformers.json names prompts and the width to truncate to.
"""

# transformers annotates cached_file in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

import msgspec
from msgspec import Struct
from transformers.utils.hub import cached_file

from strowger_gateway.schemas.errors import InvalidConfig

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
Activation = Literal["Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"]

BOUNDS = tuple(
    f"sentence_{family}_config.json"
    for family in (
        "bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet",
    )
)  # fmt: skip
"""Older versions name the file by model family."""

IDLE = frozenset({"Dropout"})
"""Steps without effect outside of training."""

_T = TypeVar("_T")
_A = TypeVar("_A")


class Pooling(Struct, frozen=True, kw_only=True):
    """modes: concatenated in this order. include_prompt: pool an instruction's tokens, too."""

    modes: tuple[Mode, ...]
    include_prompt: bool = True


class Dense(Struct, frozen=True, kw_only=True):
    """A linear layer, an activation, and an optional residual connection.

    weights: a safetensors or torch file.
    """

    weights: Path
    inputs: int
    outputs: int
    bias: bool
    activation: Activation
    residual: bool


class Normalise(Struct, frozen=True, kw_only=True):
    """Normalise to unit length."""


VectorStep = Dense | Normalise


class SentenceTransformersConfig(Struct, frozen=True, kw_only=True):
    """subfolder: of the transformer, "" if it is the model's folder.

    pooling:  `None` if not specified. steps: the steps after pooling, in order.
    longest:  most tokens per input, special ones included; `None` if not specified.
    prompts:  instructions by name. default: the instruction of requests without one.
    width:    numbers to keep of each vector; `None` if not specified.
    shrinks:  the model was trained for shorter vectors (Matryoshka).
    """

    subfolder: str = ""
    pooling: Pooling | None = None
    steps: tuple[VectorStep, ...] = (Normalise(),)
    longest: int | None = None
    lower_case: bool = False
    prompts: dict[str, str] = {}
    default: str = ""
    width: int | None = None
    shrinks: bool = False


class _Module(Struct, frozen=True, kw_only=True):
    path: str
    type: str


class _Bounds(Struct, frozen=True, kw_only=True):
    max_seq_length: int | None = None
    do_lower_case: bool = False


class _Prompts(Struct, frozen=True, kw_only=True):
    prompts: dict[str, str | None] = {}
    default_prompt_name: str | None = None
    truncate_dim: int | None = None


class _Pooling(Struct, frozen=True, kw_only=True):
    """Either the modes by name, or one flag per mode."""

    pooling_mode: str | tuple[str, ...] = ()
    pooling_mode_cls_token: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_weightedmean_tokens: bool = False
    pooling_mode_lasttoken: bool = False
    include_prompt: bool = True


class _Dense(Struct, frozen=True, kw_only=True):
    in_features: int
    out_features: int
    bias: bool = True
    activation_function: str = "torch.nn.modules.activation.Tanh"
    module_input_name: str = "sentence_embedding"
    module_output_name: str | None = None
    use_residual: bool = False


class _Model(Struct, frozen=True, kw_only=True):
    is_matryoshka: bool = False
    matryoshka_dimensions: tuple[int, ...] = ()


def read_config(path: str) -> SentenceTransformersConfig:
    """path: a folder or a hub name. Raises InvalidConfig for unsupported steps."""
    prompts = _read(path, "config_sentence_transformers.json", _Prompts, _Prompts())
    modules = _read(path, "modules.json", tuple[_Module, ...], ())
    subfolder = modules[0].path if modules else ""
    bounds = next(
        (found for name in BOUNDS if (found := _read(path, _join(subfolder, name), _Bounds, None))),
        _Bounds(),
    )
    model = _read(path, _join(subfolder, "config.json"), _Model, _Model())
    st_config = SentenceTransformersConfig(
        subfolder=subfolder,
        longest=bounds.max_seq_length,
        lower_case=bounds.do_lower_case,
        prompts={name: text for name, text in prompts.prompts.items() if text is not None},
        default=(prompts.prompts.get(prompts.default_prompt_name or "") or ""),
        width=prompts.truncate_dim,
        shrinks=(
            prompts.truncate_dim is not None
            or model.is_matryoshka
            or bool(model.matryoshka_dimensions)
        ),
    )
    return _with_modules(st_config, path, modules) if modules else st_config


def _with_modules(
    st_config: SentenceTransformersConfig, path: str, modules: tuple[_Module, ...]
) -> SentenceTransformersConfig:
    first, *rest = modules
    if _kind(first) != "Transformer":
        raise _unknown(path, first)
    pooling: Pooling | None = None
    steps: list[VectorStep] = []
    for module in rest:
        match _kind(module):
            case "Pooling" if pooling is None and not steps:
                pooling = _pooling(path, module)
            case "Dense" if pooling is not None:
                steps.append(_dense(path, module))
            case "Normalize" if pooling is not None:
                steps.append(Normalise())
            case kind if kind in IDLE:
                continue
            case _:
                raise _unknown(path, module)
    if pooling is None:
        raise InvalidConfig((f"the model at {path}: its modules.json has no Pooling",))
    return msgspec.structs.replace(st_config, pooling=pooling, steps=tuple(steps))


def _pooling(path: str, module: _Module) -> Pooling:
    found = _read(path, _join(module.path, "config.json"), _Pooling, None)
    if found is None:
        raise _without_files(path, module)
    named = (found.pooling_mode,) if isinstance(found.pooling_mode, str) else found.pooling_mode
    flags: tuple[tuple[Mode, bool], ...] = (
        ("cls", found.pooling_mode_cls_token),
        ("max", found.pooling_mode_max_tokens),
        ("mean", found.pooling_mode_mean_tokens),
        ("mean_sqrt_len_tokens", found.pooling_mode_mean_sqrt_len_tokens),
        ("weightedmean", found.pooling_mode_weightedmean_tokens),
        ("lasttoken", found.pooling_mode_lasttoken),
    )
    modes = named or tuple(mode for mode, on in flags if on) or ("mean",)
    for mode in modes:
        if mode not in get_args(Mode):
            raise InvalidConfig((f"the model at {path}: pooling mode {mode!r} is not supported",))
    return Pooling(modes=cast(tuple[Mode, ...], modes), include_prompt=found.include_prompt)


def _dense(path: str, module: _Module) -> Dense:
    found = _read(path, _join(module.path, "config.json"), _Dense, None)
    weights = _file(path, _join(module.path, "model.safetensors")) or _file(
        path, _join(module.path, "pytorch_model.bin")
    )
    if found is None or weights is None:
        raise _without_files(path, module)
    activation = found.activation_function.rpartition(".")[2]
    names = {found.module_input_name, found.module_output_name or found.module_input_name}
    if activation not in get_args(Activation) or names != {"sentence_embedding"}:
        raise _unknown(path, module, f" with {activation} on {', '.join(sorted(names))}")
    return Dense(
        weights=weights,
        inputs=found.in_features,
        outputs=found.out_features,
        bias=found.bias,
        activation=cast(Activation, activation),
        residual=found.use_residual,
    )


def _without_files(path: str, module: _Module) -> InvalidConfig:
    return InvalidConfig(
        (
            f"the model at {path}: modules.json names {module.path}, which lacks its files; "
            "download it again",
        )
    )


def _kind(module: _Module) -> str:
    return module.type.rpartition(".")[2]


def _unknown(path: str, module: _Module, more: str = "") -> InvalidConfig:
    return InvalidConfig(
        (
            f"the model at {path} needs {module.type}{more} (modules.json), which this engine "
            "does not support; serve it with another engine and add that as a provider",
        )
    )


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _read(path: str, name: str, kind: type[_T], absent: _A) -> _T | _A:
    """Return the file's content, or `absent` without one. Raises InvalidConfig if unreadable."""
    file = _file(path, name)
    if file is None:
        return absent
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except msgspec.DecodeError as exc:
        raise InvalidConfig((f"the model at {path}: {name} cannot be read: {exc}",)) from exc


def _file(path: str, name: str) -> Path | None:
    """Return the file's path; downloads a hub model's file into the cache once."""
    find = cast("Callable[..., str | None]", cached_file)
    found = find(
        path,
        name,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else Path(found)
