"""A loaded embedding model: token rows in, vectors out, one padded forward pass at a time.

Supports every architecture in transformers that takes an attention mask: encoders, encoders of
encoder-decoder models, and decoders, in which no token can see the padding on its right.
"""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Protocol, cast

import torch
from msgspec import Struct
from torch import Tensor, nn
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForTextEncoding,
)

from strowger_gateway.local_engine.embeddings.pooling import VectorSteps, pool
from strowger_gateway.local_engine.embeddings.sentence_transformers import (
    Mode,
    Pooling,
    SentenceTransformersConfig,
)
from strowger_gateway.local_engine.loading.checkpoint import longest_context
from strowger_gateway.local_engine.loading.families import ELSEWHERE
from strowger_gateway.local_engine.loading.hub_files import check_declared, check_stored
from strowger_gateway.local_engine.loading.load_faults import one_line
from strowger_gateway.local_engine.loading.stored_weights import (
    Extras,
    LoadingReport,
    layers_of,
    predictors_of,
    refuse_incomplete,
)
from strowger_gateway.local_engine.ops.linear import optimise
from strowger_gateway.schemas.errors import InvalidConfig


class _Forward(Protocol):
    """The part of a transformers model that is called."""

    def __call__(self, *, input_ids: Tensor, attention_mask: Tensor) -> "_Output": ...


class _Output(Protocol):
    last_hidden_state: Tensor


class EmbeddingShape(Struct, frozen=True, kw_only=True):
    """longest: most tokens per input. width: numbers per vector. unit: vectors have unit length.

    weights_bytes: of the transformer. pooling: of its tokens, by sentence-transformers' names.
    """

    pooling: tuple[Mode, ...] = ()
    longest: int
    vocabulary: int
    width: int
    unit: bool
    weights_bytes: int


class EmbeddingEncoder:
    """A model on its device, in evaluation mode. Call `embed` from one thread at a time."""

    def __init__(
        self,
        path: str,
        st_config: SentenceTransformersConfig,
        *,
        device: str,
        dtype: torch.dtype | None,
        slow_16: bool,
    ) -> None:
        """dtype: `None` is the checkpoint's; slow_16: in that case float32 instead of 16 bits.

        Raises InvalidConfig naming the model and why it cannot be served.
        """
        config, module = _load(path, st_config.subfolder, dtype)
        if dtype is None and slow_16 and module.dtype in (torch.bfloat16, torch.float16):
            module.float()
        module.eval().requires_grad_(requires_grad=False)
        weights_bytes = sum(weight.nbytes for weight in module.parameters())
        module.to(torch.device(device))  # pyright: ignore[reportArgumentType]  # it loses `self`
        if module.dtype == torch.bfloat16:
            optimise(module)
        text = config.get_text_config(decoder=True)
        self._forward = cast(_Forward, module)
        self._device = device
        self._pad = int(cast(int | None, getattr(text, "pad_token_id", None)) or 0)
        self._two_sided = _two_sided(path, text)
        self._pooling = st_config.pooling or _default_pooling(config, two_sided=self._two_sided)
        width = int(cast(int, text.hidden_size)) * len(self._pooling.modes)
        longest = longest_context(text, path, st_config.subfolder)
        self._finish = VectorSteps(st_config.steps, width, device)
        self.shape = EmbeddingShape(
            longest=min(_places(module), st_config.longest or longest),
            vocabulary=int(cast(int, text.vocab_size)),
            width=self._finish.width,
            unit=self._finish.unit,
            weights_bytes=weights_bytes,
            pooling=self._pooling.modes,
        )

    def embed(self, rows: Sequence[Sequence[int]], skips: Sequence[int]) -> Tensor:
        """One forward pass.

        rows:  [B][T of each, at least 1] token ids. skips: [B] tokens of an instruction at each
               row's beginning, excluded from pooling if the model's files say so.
        Returns [B, width] float32 on the CPU.
        """
        lengths = torch.tensor([len(row) for row in rows])
        most = int(lengths.max())
        ids = torch.full((len(rows), most), self._pad)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row)
        mask = torch.arange(most) < lengths[:, None]
        if self._two_sided:
            mask = mask[:, None, None, :].expand(-1, 1, most, -1)
        found = self._forward(
            input_ids=ids.to(self._device), attention_mask=mask.to(self._device)
        ).last_hidden_state
        last = (lengths - 1).to(self._device)
        first = torch.zeros_like(last)
        if not self._pooling.include_prompt:
            first = torch.minimum(torch.tensor(skips, device=self._device), last)
        return self._finish(pool(found, first, last, self._pooling)).cpu()


def _load(
    path: str, subfolder: str, dtype: torch.dtype | None
) -> tuple[PreTrainedConfig, PreTrainedModel]:
    check_declared(path, "embed")
    try:
        config = cast(
            PreTrainedConfig,
            AutoConfig.from_pretrained(path, subfolder=subfolder, trust_remote_code=False),
        )
        kind = _kind(path, config)
        check_stored(path, "embed")
        config.use_cache = False
        module, report = cast(
            tuple[PreTrainedModel, LoadingReport],
            kind.from_pretrained(
                path,
                subfolder=subfolder,
                config=config,
                dtype=dtype or "auto",
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused by name below
            ),
        )
    except (OSError, ValueError, ImportError) as exc:
        problem = f"the model at {path} cannot be loaded: {one_line(exc)}; {ELSEWHERE}"
        raise InvalidConfig((problem,)) from exc
    parts = frozenset(name for name, _ in module.named_children())
    settings = cast(dict[str, object], config.get_text_config(decoder=True).to_dict())
    extras = Extras(layers=layers_of(settings), predictors=predictors_of(settings), parts=parts)
    refuse_incomplete(path, report, extras, kind=kind.__name__)
    if "attention_mask" not in signature(module.forward).parameters:
        raise InvalidConfig(
            (
                f"the model at {path} is a {config.model_type}, which does not take an attention "
                "mask",
            )
        )
    return config, module


def _kind(path: str, config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return transformers' class; for an encoder-decoder, the encoder's class if there is one."""
    mapping = _mapping(AutoModelForTextEncoding)
    if type(config) not in mapping and not getattr(config, "is_encoder_decoder", False):
        mapping = _mapping(AutoModel)
    if type(config) not in mapping:
        raise InvalidConfig(
            (f"the model at {path} is a {config.model_type}, which cannot embed text here",)
        )
    kind = mapping[type(config)]
    return kind[0] if isinstance(kind, tuple) else kind


Kinds = dict[type[PreTrainedConfig], type[PreTrainedModel] | tuple[type[PreTrainedModel], ...]]


def _mapping(auto: type) -> Kinds:
    return cast(Kinds, getattr(auto, "_model_mapping"))  # noqa: B009  the only way to ask before loading


def _default_pooling(config: PreTrainedConfig, *, two_sided: bool) -> Pooling:
    """Return mean pooling, or last-token pooling if only the last token sees the whole text."""
    decoder = type(config) in _mapping(AutoModelForCausalLM) and type(config) not in _mapping(
        AutoModelForMaskedLM
    )
    looks_back = (
        decoder and not two_sided and not getattr(config, "use_bidirectional_attention", False)
    )
    return Pooling(modes=("lasttoken",) if looks_back else ("mean",))


def _two_sided(path: str, text: PreTrainedConfig) -> bool:
    """True for a decoder with `is_causal: false`, which transformers leaves to masks."""
    if getattr(text, "is_causal", True) is not False:
        return False
    layers = cast("Sequence[str]", getattr(text, "layer_types", None) or ())
    if any(layer != "full_attention" for layer in layers):
        raise InvalidConfig(
            (f"the model at {path}: is_causal: false is supported only with full attention",)
        )
    return True


def _places(module: PreTrainedModel) -> int:
    """Return the usable rows of a learnt position table; RoBERTa reserves the first for padding."""
    for name, part in cast("Iterator[tuple[str, nn.Module]]", module.named_modules()):
        if isinstance(part, nn.Embedding) and "position" in name.rpartition(".")[2]:
            offset = 0 if part.padding_idx is None else part.padding_idx + 1
            return part.num_embeddings - offset
    return 1 << 30
