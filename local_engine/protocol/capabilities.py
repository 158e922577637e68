"""Request fields that the engine supports, by task; the names are those of schemas/fields.py.

No torch here: the gateway reads this to route without loading a model.
"""

from strowger_gateway.schemas.fields import Task

_SAMPLING = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "typical_p",
        "do_sample",
        "max_tokens",
        "min_tokens",
        "top_p_decay",
        "top_p_min",
        "top_p_reset_id",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "no_repeat_ngram_size",
        "logit_bias",
        "embedding_bias",
        "bad_words",
        "bad_word_ids",
        "stop",
        "stop_token_ids",
        "stop_words",
        "ignore_eos",
        "end_id",
        "pad_id",
        "seed",
        "logprobs",
        "top_logprobs",
        "n",
        "best_of",
        "beam_width",
        "length_penalty",
        "early_stopping",
    }
)
"""pad_id is accepted because nothing is ever padded."""

SUPPORTED: dict[Task, frozenset[str] | None] = {
    "chat": _SAMPLING
    | {
        "user",
        "metadata",
        "priority",
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
    },
    "completion": _SAMPLING
    | {"user", "priority", "echo", "append_suffix", "template", "error_behavior"}
    | {"prompt.tokens", "prompt.batch"},
    "tokens": _SAMPLING
    | {
        "priority",
        "lora",
        "prompt_table",
        "draft",
        "return_context_logits",
        "return_generation_logits",
    },
    "embeddings": frozenset({"instruction", "dimensions", "user", "input.tokens"}),
}
"""`None`: the engine does not support this task."""

_STREAMS = frozenset({"stream_options.continuous_usage_stats"})

EXTRA: dict[Task, frozenset[str]] = {"chat": _STREAMS, "completion": _STREAMS}
"""Names beyond schemas/fields.py that may be sent. The engine counts with every step, so the
gateway
has the counts for every chunk."""
