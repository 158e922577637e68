"""TensorRT-LLM's tensors by name: the inputs of an InferenceRequest, and its outputs.

https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html, plus the names in today's
Triton models (tensorrtllm_backend's inflight_batcher_llm: `tensorrt_llm`, and `ensemble`, which
accepts text).
"""

from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.surfaces.kserve.tensors import Datatype

Shape = tuple[int, ...]


class TensorSpec(Struct, frozen=True, kw_only=True):
    """One tensor. datatypes, shapes: those accepted, the documented one first; -1 is any size.

    required: token requests must have it. of: which requests have it.
    flag:     the request's tensor that must be true for this output to exist.
    """

    name: str
    datatypes: tuple[Datatype, ...]
    shapes: tuple[Shape, ...]
    required: bool = False
    of: Literal["tokens", "text", "both"] = "both"
    flag: str = ""

    def takes(self, shape: Shape) -> bool:
        return shape in self.shapes or any(_fits(shape, one) for one in self.shapes)

    @property
    def rank(self) -> int:
        """Dimensions without a leading one for the batch."""
        return min(len(shape) for shape in self.shapes)


def _fits(shape: Shape, wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(
        side == want or (want < 0 <= side) for side, want in zip(shape, wanted, strict=True)
    )


ONE: Final = ((1,), (1, 1))
ROW: Final = ((1, -1), (-1,))
TABLE: Final = ((-1, -1), (1, -1, -1))
WORDS: Final = ((1, 2, -1), (2, -1))
FLOATS: Final[tuple[Datatype, ...]] = ("FP16", "BF16", "FP32")


def _one(name: str, *datatypes: Datatype) -> TensorSpec:
    return TensorSpec(name=name, datatypes=datatypes, shapes=ONE)


def _tokens_only(name: str, datatype: Datatype, *shapes: Shape) -> TensorSpec:
    return TensorSpec(name=name, datatypes=(datatype,), shapes=shapes, of="tokens")


INPUTS: Final = (
    TensorSpec(
        name="request_output_len", datatypes=("INT32",), shapes=((1, 1), (1,)), required=True
    ),
    TensorSpec(name="input_ids", datatypes=("INT32",), shapes=ROW, required=True, of="tokens"),
    _tokens_only("input_lengths", "INT32", *ONE),
    TensorSpec(name="text_input", datatypes=("BYTES",), shapes=ONE, of="text"),
    _one("max_tokens", "INT32"),
    _one("streaming", "BOOL"),
    _one("stream", "BOOL"),
    _one("stop", "BOOL"),
    _one("beam_width", "INT32"),
    _one("num_return_sequences", "INT32"),
    _one("temperature", "FP32"),
    _one("runtime_top_k", "INT32"),
    _one("top_k", "INT32"),
    _one("runtime_top_p", "FP32"),
    _one("top_p", "FP32"),
    _one("runtime_top_p_min", "FP32"),
    _one("runtime_top_p_decay", "FP32"),
    _one("runtime_top_p_reset_ids", "INT32"),
    _one("top_p_min", "FP32"),
    _one("top_p_decay", "FP32"),
    _one("top_p_reset_ids", "INT32"),
    _one("runtime_min_p", "FP32"),
    _one("len_penalty", "FP32"),
    _one("length_penalty", "FP32"),
    _one("early_stopping", "INT32", "BOOL"),
    _one("repetition_penalty", "FP32"),
    _one("min_length", "INT32"),
    _one("min_tokens", "INT32"),
    _one("presence_penalty", "FP32"),
    _one("frequency_penalty", "FP32"),
    _one("no_repeat_ngram_size", "INT32"),
    _one("beam_search_diversity_rate", "FP32"),
    _one("random_seed", "UINT64"),
    _one("seed", "UINT64"),
    _one("end_id", "INT32"),
    _one("pad_id", "INT32"),
    TensorSpec(name="embedding_bias", datatypes=("FP32",), shapes=ROW),
    TensorSpec(name="bad_words_list", datatypes=("INT32",), shapes=WORDS),
    TensorSpec(name="stop_words_list", datatypes=("INT32",), shapes=WORDS),
    TensorSpec(name="bad_words", datatypes=("BYTES",), shapes=ROW),
    TensorSpec(name="stop_words", datatypes=("BYTES",), shapes=ROW),
    TensorSpec(
        name="prompt_embedding_table",
        datatypes=FLOATS,
        shapes=((-1,), *TABLE),
        of="tokens",
    ),
    _tokens_only("prompt_vocab_size", "INT32", *ONE),
    _tokens_only("lora_task_id", "UINT64", *ONE),
    TensorSpec(name="lora_weights", datatypes=FLOATS, shapes=TABLE, of="tokens"),
    _tokens_only("lora_config", "INT32", (-1, 3), (1, -1, 3)),
    _one("return_log_probs", "BOOL"),
    _tokens_only("return_context_logits", "BOOL", *ONE),
    _tokens_only("return_generation_logits", "BOOL", *ONE),
    _one("return_perf_metrics", "BOOL"),
    _one("return_num_input_tokens", "BOOL"),
    _one("return_num_output_tokens", "BOOL"),
    _one("exclude_input_in_output", "BOOL"),
    _tokens_only("draft_input_ids", "INT32", (-1,), (1, -1)),
    TensorSpec(name="draft_logits", datatypes=("FP32", "FP16", "BF16"), shapes=TABLE, of="tokens"),
)

OUTPUTS: Final = (
    _tokens_only("output_ids", "INT32", (-1, -1)),
    _tokens_only("sequence_length", "INT32", (-1,)),
    TensorSpec(name="text_output", datatypes=("BYTES",), shapes=((-1,),), of="text"),
    TensorSpec(
        name="output_log_probs",
        datatypes=("FP32",),
        shapes=((1, -1, -1),),
        flag="return_log_probs",
    ),
    TensorSpec(
        name="cum_log_probs", datatypes=("FP32",), shapes=((1, -1),), flag="return_log_probs"
    ),
    TensorSpec(
        name="context_logits",
        datatypes=("FP32",),
        shapes=((1, -1, -1),),
        flag="return_context_logits",
    ),
    TensorSpec(
        name="generation_logits",
        datatypes=("FP32",),
        shapes=((1, -1, -1, -1),),
        flag="return_generation_logits",
    ),
    TensorSpec(
        name="num_input_tokens",
        datatypes=("INT32",),
        shapes=((1,),),
        flag="return_num_input_tokens",
    ),
    TensorSpec(
        name="num_output_tokens",
        datatypes=("INT32",),
        shapes=((1,),),
        flag="return_num_output_tokens",
    ),
)

INPUT: Final = {spec.name: spec for spec in INPUTS}


def shape_text(shape: Shape) -> str:
    """Format [1, -1] as `[1, n]`."""
    return f"[{', '.join('n' if side < 0 else str(side) for side in shape)}]"
