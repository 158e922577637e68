"""Random-weight models of known shapes, built once into a folder under the temporary directory.

Speed does not depend on the values of the weights, so no checkpoint is needed. Greedy tokens can
still be compared with a peer's.
"""

# transformers annotates these members only in part:
# pyright: reportUnknownMemberType=false

import getpass
import logging
import tempfile
from pathlib import Path
from typing import cast

import torch
from msgspec import Struct
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

logging.getLogger("transformers").setLevel(logging.ERROR)

CONTEXT = 2048
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Shape(Struct, frozen=True, kw_only=True):
    """A transformers configuration, with transformers' field names."""

    name: str
    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    tie_word_embeddings: bool

    def linear_parameters(self) -> int:
        """Weights that one step reads: all projections and the head, but not the embeddings."""
        heads = self.num_attention_heads + self.num_key_value_heads
        layer = self.hidden_size * (2 * heads * self.head_dim + 3 * self.intermediate_size)
        return self.num_hidden_layers * layer + self.vocab_size * self.hidden_size

    def cached_numbers(self) -> int:
        """Numbers that one token adds to the key/value cache, over all layers."""
        return 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim

    def step_bytes(self, dtype: torch.dtype, batch: int, context: int) -> int:
        """Minimum number of bytes that a decoding step must read."""
        numbers = self.linear_parameters() + batch * context * self.cached_numbers()
        return numbers * dtype.itemsize


SHAPES = {
    shape.name: shape
    for shape in (
        Shape(
            name="125m",
            family="llama",
            vocab_size=32_000,
            hidden_size=768,
            intermediate_size=2048,
            num_hidden_layers=12,
            num_attention_heads=12,
            num_key_value_heads=4,
            head_dim=64,
            tie_word_embeddings=False,
        ),
        Shape(
            name="0.5b",
            family="qwen2",
            vocab_size=151_936,
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            head_dim=64,
            tie_word_embeddings=True,
        ),
        Shape(
            name="0.6b",
            family="qwen3",
            vocab_size=151_936,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            tie_word_embeddings=True,
        ),
    )
}


def cache_folder() -> Path:
    """The folder in which benchmark models are kept between runs."""
    return Path(tempfile.gettempdir()) / f"strowger-benchmarks-{getpass.getuser()}"


def folder(shape: Shape) -> Path:
    """The folder of the model's bfloat16 weights; created if it does not exist."""
    path = cache_folder() / shape.name
    if not (path / "config.json").exists():
        random_model(shape).save_pretrained(path)
    return path


def peer(shape: Shape, dtype: torch.dtype) -> PreTrainedModel:
    """The same model in transformers."""
    path = folder(shape)
    model = cast(PreTrainedModel, AutoModelForCausalLM.from_pretrained(path, dtype=dtype))
    return model.eval()


def prompts(shape: Shape, batch: int, length: int) -> list[list[int]]:
    """Random tokens, the same for the same arguments."""
    source = torch.Generator().manual_seed(batch)
    ids = torch.randint(3, shape.vocab_size, (batch, length), generator=source)
    return cast(list[list[int]], ids.tolist())


def random_model(shape: Shape) -> PreTrainedModel:
    """A bfloat16 model; the same shape always has the same weights."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        shape.family,
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_hidden_layers,
        num_attention_heads=shape.num_attention_heads,
        num_key_value_heads=shape.num_key_value_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=shape.tie_word_embeddings,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=None,
    )
    return cast(PreTrainedModel, AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16))
