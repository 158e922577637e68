"""Sampling parameters: the union of what the surfaces accept.

`UNSET` means that the client did not send it. Ranges are not checked here: each surface checks its
own (MindIE's temperature has no maximum) and each backend its own.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.schemas.tensors import Tensor


class Sampling(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Names are the OpenAI dialect's if it has one.

    temperature:          0 is greedy; top_p and top_k then change nothing.
    top_p:                nucleus mass kept; 0 keeps one token.
    top_k:                candidates kept; `None` keeps the whole vocabulary.
    min_p, typical_p:     (0, 1]; min_p may be 0 (off).
    do_sample:            MindIE's switch; `False` is greedy whatever the temperature.
    max_tokens:           upper bound on *generated* tokens, reasoning included; `None`: no bound.
    min_tokens:           end and stop tokens are banned until this many were generated.
    stop:                 strings; the match itself is not returned.
    stop_token_ids:       single tokens that end the answer.
    stop_words:           token sequences that end the answer (TensorRT-LLM's stop_words_list).
    bad_words:            strings that must not be generated; bad_word_ids: the same as tokens.
    ignore_eos:           continue after the model's end token.
    end_id:               replaces the model's end token; -1: none. pad_id: pads unequal beams.
    seed:                 0 … 2**64-1, or a negative int64 read as its two's complement.
    logit_bias:           token id -> value added to its logit.
    embedding_bias:       [V] float32, the same for the whole vocabulary.
    logprobs:             log probabilities of the chosen tokens; top_logprobs: how many more.
    n, best_of:           answers returned, and answers generated to select them from.
    beam_width:           1 is no beam search; length_penalty and early_stopping apply above 1.
    top_p_decay/_min/_reset_id: TensorRT-LLM: p shrinks by `decay` per step down to `min`,
                          and starts again at token `reset_id`.
    """

    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    top_k: int | None | UnsetType = UNSET
    min_p: float | UnsetType = UNSET
    typical_p: float | UnsetType = UNSET
    do_sample: bool | UnsetType = UNSET
    max_tokens: int | None | UnsetType = UNSET
    min_tokens: int | UnsetType = UNSET
    stop: tuple[str, ...] | UnsetType = UNSET
    stop_token_ids: tuple[int, ...] | UnsetType = UNSET
    stop_words: tuple[tuple[int, ...], ...] | UnsetType = UNSET
    bad_words: tuple[str, ...] | UnsetType = UNSET
    bad_word_ids: tuple[tuple[int, ...], ...] | UnsetType = UNSET
    ignore_eos: bool | UnsetType = UNSET
    end_id: int | UnsetType = UNSET
    pad_id: int | UnsetType = UNSET
    seed: int | None | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    repetition_penalty: float | UnsetType = UNSET
    no_repeat_ngram_size: int | UnsetType = UNSET
    logit_bias: dict[int, float] | UnsetType = UNSET
    embedding_bias: Tensor | UnsetType = UNSET
    logprobs: bool | UnsetType = UNSET
    top_logprobs: int | UnsetType = UNSET
    n: int | UnsetType = UNSET
    best_of: int | UnsetType = UNSET
    beam_width: int | UnsetType = UNSET
    length_penalty: float | UnsetType = UNSET
    early_stopping: bool | Literal["never"] | UnsetType = UNSET
    top_p_decay: float | UnsetType = UNSET
    top_p_min: float | UnsetType = UNSET
    top_p_reset_id: int | UnsetType = UNSET
    watermark: bool | UnsetType = UNSET


GREEDY = Sampling(temperature=0.0)
