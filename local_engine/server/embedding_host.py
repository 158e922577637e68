"""Load the configured embedding models, each with its lane.

They load before the generating models, whose caches use the remaining memory.
"""

from collections.abc import Callable

import msgspec
import torch
from msgspec import Struct

from strowger_gateway.local_engine.config import EngineConfig, ModelConfig
from strowger_gateway.local_engine.device import DTYPES, choose_device, probe
from strowger_gateway.local_engine.embeddings.embedding_lane import NO_NUMBERS, EmbeddingLane
from strowger_gateway.local_engine.embeddings.encoder import EmbeddingEncoder, EmbeddingShape
from strowger_gateway.local_engine.embeddings.request_reader import TextReader
from strowger_gateway.local_engine.embeddings.sentence_transformers import Mode, read_config
from strowger_gateway.local_engine.loading.checkpoint_files import check_tokenizer
from strowger_gateway.local_engine.loading.load_faults import model_named
from strowger_gateway.local_engine.loading.model_paths import model_folder
from strowger_gateway.local_engine.server.model_host import STEP_TOKENS
from strowger_gateway.local_engine.server.tokenizer_fit import refuse_other_tokenizer
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.errors import InvalidConfig

ASSUMED: dict[tuple[Mode, ...], str] = {
    ("mean",): "mean of all tokens",
    ("lasttoken",): "last token's",
}
"""What `EmbeddingEncoder` takes where no file says it."""


class Embedder(Struct, frozen=True, kw_only=True, eq=False):
    """A loaded embedding model."""

    name: str
    reader: TextReader
    lane: EmbeddingLane
    shape: EmbeddingShape


def host_embedders(config: EngineConfig, report: Callable[[str], None]) -> dict[str, Embedder]:
    """Load every embedding model, in order. Reports and raises as `host` does.

    `dtype: auto` is the checkpoint's dtype here, but float32 on a CPU that emulates bfloat16.
    """
    models = [model for model in config.models if model.task == "embed"]
    if not models:
        return {}
    if config.threads:
        torch.set_num_threads(config.threads)
    available = probe()
    device = choose_device(config.device, available)
    slow_16 = device == "cpu" and not available.cpu_bfloat16
    hosted: dict[str, Embedder] = {}
    for model in models:
        with model_named(model.name, model.path):
            hosted[model.name] = _build_embedder(
                config, model, device, slow_16=slow_16, report=report
            )
    return hosted


def _build_embedder(
    config: EngineConfig,
    model: ModelConfig,
    device: str,
    *,
    slow_16: bool,
    report: Callable[[str], None],
) -> Embedder:
    report(f"loading {model.name} from {model.path}")
    path = model_folder(model.path, model.revision)
    check_tokenizer(path, model.task)
    st_config = read_config(path)
    parses = model.special_tokens_in_prompts == "parse"
    tokenizer = Tokenizer(path, subfolder=st_config.subfolder, parses=parses, embeds=True)
    encoder = EmbeddingEncoder(
        path,
        st_config,
        device=device,
        dtype=None if config.dtype == "auto" else DTYPES[config.dtype],
        slow_16=slow_16,
    )
    shape = encoder.shape
    refuse_other_tokenizer(tokenizer, path, shape.vocabulary)
    longest = min(
        shape.longest,
        config.max_seq_len or shape.longest,
        shape.longest if st_config.longest else tokenizer.longest,
    )
    shape = msgspec.structs.replace(shape, longest=longest)
    with torch.inference_mode():
        vectors = encoder.embed([[0] * min(8, shape.longest)], [0])
    if not bool(vectors.isfinite().all()):
        raise InvalidConfig((f"the model at {path} cannot be served: {NO_NUMBERS}",))
    lane = EmbeddingLane(
        encoder,
        max_step_tokens=config.max_step_tokens or STEP_TOKENS[device],
        weights_bytes=shape.weights_bytes,
    )
    if st_config.pooling is None:
        report(
            f"{model.name}: no modules.json says how tokens become a vector, so this is the "
            f"{ASSUMED[shape.pooling]}, as in sentence-transformers"
        )
    report(f"{model.name} is ready: inputs up to {shape.longest}, vectors of {shape.width}")
    return Embedder(
        name=model.name,
        reader=TextReader(
            tokenizer,
            st_config,
            shape,
            shrinks=model.matryoshka,
            takes_tokens=model.token_inputs == "accept",
        ),
        lane=lane,
        shape=shape,
    )
