"""All formats of tool calls, and which of them a chat template shows."""

from collections.abc import Callable

from strowger_gateway.local_engine.answer_formats.bracket_formats import (
    FUNCTION_GEMMA,
    GEMMA3,
    GEMMA4,
    HARMONY,
    LFM2,
    OLMO3,
    PYTHONIC,
)
from strowger_gateway.local_engine.answer_formats.formats import ToolFormat
from strowger_gateway.local_engine.answer_formats.json_formats import (
    APERTUS,
    COHERE,
    GENERIC,
    GRANITE,
    GRANITE_20B,
    HERMES,
    INTERNLM,
    LLAMA,
    LONGCAT,
    MISTRAL,
    NEMOTRON,
    PHI,
    TOOL_CALLS,
)
from strowger_gateway.local_engine.answer_formats.named_formats import (
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    FUNCTION_TAG,
    KIMI,
    MISTRAL_NAMED,
)
from strowger_gateway.local_engine.answer_formats.tagged_formats import (
    DSML,
    GLM,
    HUNYUAN3,
    MINIMAX_M2,
    QWEN_XML,
    SEED,
    STEP3,
)

FORMATS = (
    HERMES,
    QWEN_XML,
    SEED,
    GLM,
    MINIMAX_M2,
    DSML,
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    KIMI,
    MISTRAL,
    MISTRAL_NAMED,
    LLAMA,
    PYTHONIC,
    LFM2,
    OLMO3,
    GRANITE,
    GRANITE_20B,
    PHI,
    COHERE,
    TOOL_CALLS,
    HUNYUAN3,
    GEMMA4,
    FUNCTION_GEMMA,
    GEMMA3,
    INTERNLM,
    STEP3,
    NEMOTRON,
    APERTUS,
    LONGCAT,
    FUNCTION_TAG,
    HARMONY,
)


def formats_of(template: str) -> tuple[ToolFormat, ...]:
    """Return the formats whose signs a chat template has; more than one only by coincidence."""
    return tuple(
        one
        for one in FORMATS
        if any(all(sign in template for sign in group) for group in one.signs)
        and not any(sign in template for sign in one.without)
    )


def format_of(template: str, is_token: Callable[[str], bool] = lambda _: False) -> ToolFormat:
    """Return the format of a model's calls.

    is_token: true if a spelling is a token of the model. A template without signs is one that the
    operator wrote, and the model writes calls as it was trained to: between marks that are tokens.
    GENERIC if neither shows a format.
    """
    shown = next(iter(formats_of(template)), None)
    if shown is not None:
        return shown
    known = (one for one in FORMATS if one.open not in ("", *one.fences) and is_token(one.open))
    return next(known, GENERIC)
