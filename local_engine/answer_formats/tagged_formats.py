"""Formats whose calls have one element per argument, as in XML."""

from strowger_gateway.local_engine.answer_formats.formats import JsonBody, TaggedBody, ToolFormat

_SGLANG = "https://github.com/sgl-project/sglang/tree/main/python/sglang/srt/function_call"

QWEN_XML = ToolFormat(
    name="qwen-xml",
    source="https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct/blob/main/chat_template.jinja",
    signs=(("<function=", "<parameter="),),
    without=("<seed:tool_call>",),
    opens=("<tool_call>",),
    starts=("<function=",),
    closes=("</tool_call>",),
    bodies=(
        TaggedBody(
            call=("<function=", ">"),
            key=("<parameter=", ">"),
            value=("", "</parameter>"),
            end="</function>",
            pad="\n",
        ),
        JsonBody(),
    ),
    between="\n",
    lead="\n",
    tail="\n",
)
"""Qwen3-Coder, Qwen 3.5, Step 3.5 and MiMo; some answers lack the first mark."""


SEED = ToolFormat(
    name="seed",
    source="https://huggingface.co/ByteDance-Seed/Seed-OSS-36B-Instruct/blob/main/chat_template.jinja",
    signs=(("<seed:tool_call>",),),
    opens=("<seed:tool_call>",),
    closes=("</seed:tool_call>",),
    bodies=(
        TaggedBody(
            call=("<function=", ">"),
            key=("<parameter=", ">"),
            value=("", "</parameter>"),
            end="</function>",
        ),
    ),
    between="\n",
    lead="\n",
    tail="\n",
)


GLM = ToolFormat(
    name="glm",
    source="https://huggingface.co/zai-org/GLM-4.5/blob/main/chat_template.jinja",
    signs=(("<arg_key>", "<tool_call>"),),
    without=("<tool_calls>", "<longcat_tool_call>"),
    opens=("<tool_call>",),
    closes=("</tool_call>",),
    bodies=(
        TaggedBody(
            call=("", "\n"),
            key=("<arg_key>", "</arg_key>"),
            value=("\n<arg_value>", "</arg_value>"),
        ),
    ),
    between="\n",
)


HUNYUAN3 = ToolFormat(
    name="hunyuan-3",
    source=_SGLANG + "/hunyuan_detector.py",
    signs=(("<tool_calls>", "<arg_key>"),),
    opens=("<tool_calls>",),
    section=True,
    starts=("<tool_call>",),
    closes=("</tool_calls>",),
    bodies=(
        TaggedBody(
            call=("<tool_call>", "<tool_sep>"),
            key=("<arg_key>", "</arg_key>"),
            value=("\n<arg_value>", "</arg_value>"),
            end="</tool_call>",
        ),
    ),
    between="\n",
    lead="\n",
    tail="\n",
)


MINIMAX_M2 = ToolFormat(
    name="minimax-m2",
    source="https://huggingface.co/MiniMaxAI/MiniMax-M2/blob/main/docs/tool_calling_guide.md",
    signs=(("<minimax:tool_call>",),),
    opens=("<minimax:tool_call>",),
    section=True,
    closes=("</minimax:tool_call>",),
    bodies=(
        TaggedBody(
            call=('<invoke name="', '">'),
            key=('<parameter name="', '">'),
            value=("", "</parameter>"),
            end="</invoke>",
        ),
    ),
    between="\n",
    lead="\n",
    tail="\n",
)


DSML = ToolFormat(
    name="deepseek-dsml",
    source="https://huggingface.co/deepseek-ai/DeepSeek-V3.2/blob/main/encoding/encoding_dsv32.py",
    signs=(("｜DSML｜",),),
    opens=("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"),
    section=True,
    closes=("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"),
    bodies=(
        TaggedBody(
            call=('<｜DSML｜invoke name="', '">'),
            key=('<｜DSML｜parameter name="', '"'),
            value=("", "</｜DSML｜parameter>"),
            end="</｜DSML｜invoke>",
            text=' string="true">',
            json=' string="false">',
        ),
    ),
    between="\n",
    lead="\n",
    tail="\n",
    tokens=("｜DSML｜",),
)
"""DeepSeek V3.2 and V4."""


STEP3 = ToolFormat(
    name="step3",
    source="https://huggingface.co/stepfun-ai/step3/blob/main/chat_template.jinja",
    signs=(("<steptml:",), ("<｜tool_calls_begin｜>",)),
    opens=("<｜tool_calls_begin｜>",),
    section=True,
    starts=("<steptml:invoke",),
    closes=("<｜tool_calls_end｜>",),
    inner=(
        "<｜tool_call_begin｜>",
        "<｜tool_call_end｜>",
        "function<｜tool_sep｜>",
        "<｜tool_sep｜>",
    ),
    bodies=(
        TaggedBody(
            call=('<steptml:invoke name="', '">'),
            key=('<steptml:parameter name="', '">'),
            value=("", "</steptml:parameter>"),
            end="</steptml:invoke>",
            after="",
        ),
    ),
    between="\n",
    lead="\n",
    tail="\n",
    wrap=("<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜>"),
)
