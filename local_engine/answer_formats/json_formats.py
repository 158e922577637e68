"""Formats whose calls are JSON objects, or arrays of them."""

from strowger_gateway.local_engine.answer_formats.formats import (
    JsonBody,
    NamedBody,
    PythonBody,
    ToolFormat,
)

_VLLM = "https://github.com/vllm-project/vllm/tree/main/vllm/tool_parsers"

HERMES = ToolFormat(
    name="hermes",
    source="https://github.com/NousResearch/Hermes-Function-Calling",
    signs=(("<tool_call>",),),
    without=("<function=", "<arg_key>", "<tool_calls>", "<|tool_call>", "[TOOL_CALLS]"),
    opens=("<tool_call>",),
    closes=("</tool_call>",),
    bodies=(JsonBody(),),
    between="\n",
    lead="\n",
    tail="\n",
)
"""Qwen 2.5 and 3, ERNIE 4.5, EXAONE 4, Granite 4 and SmolLM3 write the same."""


MISTRAL = ToolFormat(
    name="mistral",
    source="https://docs.mistral.ai/capabilities/function_calling",
    signs=(("[TOOL_CALLS]",),),
    without=("[ARGS]",),
    opens=("[TOOL_CALLS]",),
    section=True,
    bodies=(JsonBody(listed=True), NamedBody(separator="[ARGS]", id="[CALL_ID]")),
    between=", ",
    ids="nine",
)
"""Up to tokenizer v7; its templates require ids with nine characters."""


LLAMA = ToolFormat(
    name="llama",
    source="https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/",
    signs=(("<|python_tag|>",), ('"parameters": dictionary',)),
    without=("pythonic", "[func_name1("),
    opens=("<|python_tag|>", "<|python_start|>"),
    closes=("<|python_end|>",),
    bodies=(JsonBody(arguments="parameters"), PythonBody()),
    between="; ",
    bare="{[",
)
"""The marks are optional; small models write Python as well."""


GRANITE = ToolFormat(
    name="granite",
    source=_VLLM + "/granite_tool_parser.py",
    signs=(("<|tool_call|>",),),
    without=("<|/tool_call|>",),
    opens=("<|tool_call|>", "<tool_call>"),
    section=True,
    inner=("</tool_call>",),
    bodies=(JsonBody(listed=True),),
    between=", ",
)
"""Granite 3."""


GRANITE_20B = ToolFormat(
    name="granite-20b",
    source="https://huggingface.co/ibm-granite/granite-20b-functioncalling",
    signs=(("<function_call>",),),
    opens=("<function_call>",),
    bodies=(JsonBody(),),
    between="\n",
    lead=" ",
)


PHI = ToolFormat(
    name="phi-4-mini",
    source="https://huggingface.co/microsoft/Phi-4-mini-instruct",
    signs=(("functools",), ("<|/tool_call|>",), ("<|tool|>", "<|/tool|>")),
    opens=("<|tool_call|>", "functools"),
    section=True,
    closes=("<|/tool_call|>",),
    bodies=(JsonBody(listed=True),),
    between=", ",
)


COHERE = ToolFormat(
    name="cohere",
    source="https://docs.cohere.com/docs/command-r7b-hf",
    signs=(("<|START_ACTION|>",),),
    opens=("<|START_ACTION|>",),
    section=True,
    closes=("<|END_ACTION|>",),
    bodies=(JsonBody(listed=True, name="tool_name", arguments="parameters"),),
    between=", ",
)
"""Command R7B and Command A."""


TOOL_CALLS = ToolFormat(
    name="tool-calls",
    source=_VLLM + "/hunyuan_a13b_tool_parser.py",
    signs=(("<tool_calls>",),),
    without=("<arg_key>",),
    opens=("<tool_calls>",),
    section=True,
    closes=("</tool_calls>",),
    inner=("<tool_call>", "</tool_call>"),
    bodies=(JsonBody(listed=True), NamedBody(separator="\n```json\n", end="\n```")),
    between=", ",
)
"""Hunyuan, MiniMax-M1 and Jamba."""


INTERNLM = ToolFormat(
    name="internlm",
    source="https://github.com/InternLM/InternLM/blob/main/chat/chat_format.md",
    signs=(("<|action_start|>",),),
    opens=("<|action_start|>",),
    closes=("<|action_end|>",),
    inner=("<|plugin|>",),
    bodies=(JsonBody(arguments="parameters"),),
    lead="<|plugin|>\n",
)


NEMOTRON = ToolFormat(
    name="nemotron",
    source="https://huggingface.co/nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    signs=(("<TOOLCALL>",),),
    opens=("<TOOLCALL>",),
    section=True,
    closes=("</TOOLCALL>",),
    bodies=(JsonBody(listed=True),),
    between=", ",
)


APERTUS = ToolFormat(
    name="apertus",
    source=_VLLM + "/apertus_tool_parser.py",
    signs=(("<|tools_prefix|>",),),
    opens=("<|tools_prefix|>",),
    section=True,
    closes=("<|tools_suffix|>",),
    bodies=(JsonBody(listed=True, keyed=True),),
    between=", ",
)


LONGCAT = ToolFormat(
    name="longcat",
    source=_VLLM + "/longcat_tool_parser.py",
    signs=(("<longcat_tool_call>",),),
    opens=("<longcat_tool_call>",),
    closes=("</longcat_tool_call>",),
    bodies=(JsonBody(),),
    between="\n",
    lead="\n",
    tail="\n",
)


GENERIC = ToolFormat(
    name="json",
    source=_VLLM + "/xlam_tool_parser.py",
    bodies=(JsonBody(), PythonBody()),
    bare="{[",
    opens=("```json",),
    fences=("```json",),
    closes=("```",),
    between="; ",
)
"""For models with an unknown format, and xLAM: objects or an array of them, in a block of code."""
