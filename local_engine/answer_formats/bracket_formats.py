"""Formats whose calls look like those of a programming language, and harmony."""

from strowger_gateway.local_engine.answer_formats.formats import (
    JsonBody,
    KeyedBody,
    PythonBody,
    ToolFormat,
)

PYTHONIC = ToolFormat(
    name="pythonic",
    source="https://www.llama.com/docs/model-cards-and-prompt-formats/llama4/",
    signs=(("pythonic",), ("[func_name1(",), ("<|python_start|>",)),
    without=('"parameters": dictionary', "<|tool_call_start|>"),
    opens=("<|python_start|>", "<|python_tag|>"),
    closes=("<|python_end|>",),
    bodies=(PythonBody(), JsonBody(arguments="parameters")),
    bare="[{",
)


LFM2 = ToolFormat(
    name="lfm2",
    source="https://docs.liquid.ai/lfm/key-concepts/tool-use",
    signs=(("<|tool_call_start|>",), ("<|tool_list_start|>",)),
    opens=("<|tool_call_start|>",),
    section=True,
    closes=("<|tool_call_end|>",),
    bodies=(PythonBody(), JsonBody(listed=True)),
)


OLMO3 = ToolFormat(
    name="olmo3",
    source="https://huggingface.co/allenai/Olmo-3-7B-Instruct/blob/main/chat_template.jinja",
    signs=(("<function_calls>",),),
    without=("｜DSML｜",),
    opens=("<function_calls>",),
    section=True,
    closes=("</function_calls>",),
    bodies=(PythonBody(listed=False), JsonBody()),
    between="\n",
)


GEMMA4 = ToolFormat(
    name="gemma4",
    source="https://ai.google.dev/gemma/docs/capabilities/text/function-calling-gemma4",
    signs=(("<|tool_call>",),),
    opens=("<|tool_call>",),
    closes=("<tool_call|>",),
    bodies=(KeyedBody(quote='<|"|>'),),
)


FUNCTION_GEMMA = ToolFormat(
    name="functiongemma",
    source="https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices",
    signs=(("<start_function_call>",),),
    opens=("<start_function_call>",),
    closes=("<end_function_call>",),
    bodies=(KeyedBody(quote="<escape>"),),
)


GEMMA3 = ToolFormat(
    name="gemma3",
    source="https://ai.google.dev/gemma/docs/capabilities/function-calling",
    signs=(("tool_code",),),
    opens=("```tool_code",),
    section=True,
    closes=("```",),
    fences=("```tool_code",),
    bodies=(PythonBody(listed=False),),
    between="\n",
    lead="\n",
    tail="\n",
)


HARMONY = ToolFormat(
    name="harmony",
    source="https://cookbook.openai.com/articles/openai-harmony",
    signs=(("<|channel|>", "<|message|>"),),
    bodies=(),
    tokens=(
        "<|start|>",
        "<|channel|>",
        "<|message|>",
        "<|constrain|>",
        "<|end|>",
        "<|call|>",
        "<|return|>",
    ),
)
"""gpt-oss. Its channels hold reasoning, calls and text; `harmony.py` reads them."""
