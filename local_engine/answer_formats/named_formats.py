"""Formats whose calls are a name, a mark and a JSON object."""

from strowger_gateway.local_engine.answer_formats.formats import JsonBody, NamedBody, ToolFormat

_DEEPSEEK_TOKENS = ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>")
_V31 = NamedBody(
    begin="<｜tool▁call▁begin｜>", separator="<｜tool▁sep｜>", end="<｜tool▁call▁end｜>"
)
_V3 = NamedBody(
    begin="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    separator="\n```json\n",
    end="\n```<｜tool▁call▁end｜>",
)


DEEPSEEK_V3 = ToolFormat(
    name="deepseek-v3",
    source="https://huggingface.co/deepseek-ai/DeepSeek-V3/blob/main/tokenizer_config.json",
    signs=(("<｜tool▁calls▁begin｜>", "```json"),),
    opens=("<｜tool▁calls▁begin｜>",),
    section=True,
    starts=("<｜tool▁call▁begin｜>",),
    closes=("<｜tool▁calls▁end｜>",),
    bodies=(_V3, _V31),
    between="\n",
    tokens=_DEEPSEEK_TOKENS,
)
"""And R1."""


DEEPSEEK_V31 = ToolFormat(
    name="deepseek-v3.1",
    source="https://huggingface.co/deepseek-ai/DeepSeek-V3.1#toolcall",
    signs=(("<｜tool▁calls▁begin｜>",),),
    without=("```json",),
    opens=("<｜tool▁calls▁begin｜>",),
    section=True,
    starts=("<｜tool▁call▁begin｜>",),
    closes=("<｜tool▁calls▁end｜>",),
    bodies=(_V31, _V3),
    tokens=_DEEPSEEK_TOKENS,
)


KIMI = ToolFormat(
    name="kimi-k2",
    source="https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md",
    signs=(("<|tool_calls_section_begin|>",),),
    opens=("<|tool_calls_section_begin|>",),
    section=True,
    starts=("<|tool_call_begin|>",),
    closes=("<|tool_calls_section_end|>",),
    bodies=(
        NamedBody(
            begin="<|tool_call_begin|>",
            separator="<|tool_call_argument_begin|>",
            end="<|tool_call_end|>",
            kimi=True,
        ),
    ),
    ids="kimi",
    ends_reasoning=True,
)


MISTRAL_NAMED = ToolFormat(
    name="mistral-v11",
    source="https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/tokens/tokenizers/instruct.py",
    signs=(("[TOOL_CALLS]", "[ARGS]"),),
    opens=("[TOOL_CALLS]",),
    bodies=(NamedBody(separator="[ARGS]", id="[CALL_ID]"), JsonBody(listed=True)),
    ids="nine",
)


FUNCTION_TAG = ToolFormat(
    name="function-tag",
    source="https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/#user-defined-custom-tool-calling",
    signs=(("<function=",),),
    without=("<parameter=",),
    opens=("<function=",),
    bodies=(NamedBody(separator=">", end="</function>"),),
)
