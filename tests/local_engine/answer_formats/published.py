"""One answer per format, as the models' cards and the parsers of other servers show them.

Values are ours. Each answer has text, where the format allows it, and two calls.
"""

from msgspec import Raw, Struct

SCHEMA = Raw(
    b'{"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},'
    b' "units": {"type": "object"}, "exact": {"type": "boolean"}}, "required": ["city"]}'
)
FUNCTIONS = {"weather": SCHEMA, "now": Raw(b'{"type": "object", "properties": {}}')}
PARIS: dict[str, object] = {"city": 'Zürich, "Alt"', "days": 3}
JSON = '{"city": "Zürich, \\"Alt\\"", "days": 3}'


class Published(Struct, frozen=True, kw_only=True):
    """template: what the chat template of such a model contains, shortened.

    begin, end: marks around the calls, which can get lost. text: before the calls.
    bare: the calls have no mark, so their names must be known.
    guided: the calls as a grammar writes them; "" if these are the answer's.
    """

    template: str
    answer: str
    text: str = "I look."
    reasoning: str = ""
    end: str = ""
    guided: str = ""
    bare: bool = False


def _json(name: str, arguments: str, key: str = "arguments") -> str:
    return f'{{"name": "{name}", "{key}": {arguments}}}'


_LIST = f"[{_json('weather', JSON)}, {_json('now', '{}')}]"
_PYTHON = "weather(city='Zürich, \"Alt\"', days=3)"
_GUIDED = 'weather(city="Zürich, \\"Alt\\"", days=3)'
_CALL = "<｜tool▁call▁begin｜>"

PUBLISHED = {
    "hermes": Published(
        template="{{ '<tool_call>\\n' }}{{ '</tool_call>' }}<think></think>",
        reasoning="Weather first.",
        answer="<think>\nWeather first.\n</think>\n\nI look.\n<tool_call>\n"
        f"{_json('weather', JSON)}\n</tool_call>\n<tool_call>\n{_json('now', '{}')}\n</tool_call>",
        end="\n</tool_call>",
    ),
    "qwen-xml": Published(
        template="<tool_call>\\n<function=example_function_name>\\n<parameter=example_parameter_1>",
        answer='I look.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nZürich, "Alt"\n'
        "</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
        "<function=now>\n</function>\n</tool_call>",
        end="\n</tool_call>",
    ),
    "seed": Published(
        template="{%- set toolcall_begin_token = '<seed:tool_call>' -%}<function=example_name>"
        "<parameter=example_parameter_1></seed:think><seed:think>",
        reasoning="Hm.",
        answer="<seed:think>Hm.</seed:think>I look.\n<seed:tool_call>\n<function=weather>\n"
        '<parameter=city>Zürich, "Alt"</parameter>\n<parameter=days>3</parameter>\n</function>\n'
        "</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
        end="\n</seed:tool_call>",
    ),
    "glm": Published(
        template="<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n<think></think>",
        reasoning="Hm.",
        answer="<think>Hm.</think>\nI look.\n<tool_call>weather\n<arg_key>city</arg_key>\n"
        '<arg_value>Zürich, "Alt"</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n'
        "</tool_call>\n<tool_call>now\n</tool_call>",
    ),
    "minimax-m2": Published(
        template="{%- set toolcall_begin_token = '<minimax:tool_call>' -%}"
        '<invoke name="tool-name-1"><parameter name="param-key-1">',
        answer='I look.\n<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">'
        'Zürich, "Alt"</parameter>\n<parameter name="days">3</parameter>\n</invoke>\n'
        '<invoke name="now">\n</invoke>\n</minimax:tool_call>',
        end="\n</minimax:tool_call>",
    ),
    "deepseek-dsml": Published(
        template='{%- set dsml_token = "｜DSML｜" -%}<{{ dsml_token }}function_calls>'
        "</think><think>",
        answer='I look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="weather">\n'
        '<｜DSML｜parameter name="city" string="true">Zürich, "Alt"</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        end="\n</｜DSML｜function_calls>",
    ),
    "deepseek-v3": Published(
        template="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + "
        "tool['function']['name'] + '\\n' + '```json'",
        answer=f"I look.<｜tool▁calls▁begin｜>{_CALL}function<｜tool▁sep｜>weather\n```json\n{JSON}"
        f"\n```<｜tool▁call▁end｜>\n{_CALL}function<｜tool▁sep｜>now\n```json\n{{}}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        end="<｜tool▁calls▁end｜>",
    ),
    "deepseek-v3.1": Published(
        template="'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>'+ tool['function']['name'] + "
        "'<｜tool▁sep｜>' + tool['function']['arguments']",
        answer=f"I look.<｜tool▁calls▁begin｜>{_CALL}weather<｜tool▁sep｜>{JSON}<｜tool▁call▁end｜>"
        f"{_CALL}now<｜tool▁sep｜>{{}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        end="<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    "kimi-k2": Published(
        template="<|tool_calls_section_begin|>{%- for %}<|tool_call_begin|>{{ formatted_id }}",
        answer="I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
        f"<|tool_call_argument_begin|>{JSON}<|tool_call_end|><|tool_call_begin|>functions.now:1"
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
        end="<|tool_call_end|><|tool_calls_section_end|>",
    ),
    "mistral": Published(
        template='{{- "[TOOL_CALLS] [" }}{{- "[TOOL_RESULTS] " }}',
        answer=f"I look.[TOOL_CALLS]{_LIST}",
    ),
    "mistral-v11": Published(
        template="'[TOOL_CALLS]' + name + '[ARGS]' + arguments [THINK][/THINK]",
        reasoning="Hm.",
        answer=f"[THINK]Hm.[/THINK]I look.[TOOL_CALLS]weather[ARGS]{JSON}[TOOL_CALLS]now[ARGS]{{}}",
    ),
    "llama": Published(
        template='{"name": function name, "parameters": dictionary of argument name and its value}'
        "<|python_tag|>",
        answer=f"<|python_tag|>{_json('weather', JSON, 'parameters')}; "
        f"{_json('now', '{}', 'parameters')}",
        guided=f"{_json('weather', JSON, 'parameters')}; {_json('now', '{}', 'parameters')}",
        text="",
    ),
    "pythonic": Published(
        template="[func_name1(params_name1=params_value1, params_name2=params_value2...), ...]",
        answer=f"[{_PYTHON}, now()]",
        guided=f"[{_GUIDED}, now()]",
        text="",
        bare=True,
    ),
    "lfm2": Published(
        template="List of tools: <|tool_list_start|>[",
        answer=f"I look.<|tool_call_start|>[{_PYTHON}, now()]<|tool_call_end|>",
        guided=f"<|tool_call_start|>[{_GUIDED}, now()]<|tool_call_end|>",
        end="<|tool_call_end|>",
    ),
    "olmo3": Published(
        template="<functions></functions><function_calls></function_calls>",
        answer=f"I look. <function_calls>{_PYTHON}\nnow()</function_calls>",
        guided=f"<function_calls>{_GUIDED}\nnow()</function_calls>",
        end="</function_calls>",
    ),
    "granite": Published(
        template="respond only with <|tool_call|> followed by a JSON list of tools used",
        answer=f"I look.<|tool_call|>{_LIST}",
    ),
    "granite-20b": Published(
        template="<function_call> {{ '<function_response>' }}",
        answer=f"I look.\n<function_call> {_json('weather', JSON)}\n"
        f"<function_call> {_json('now', '{}')}",
    ),
    "phi-4-mini": Published(
        template="'<|tool|>' + message['tools'] + '<|/tool|>'",
        answer=f"I look.<|tool_call|>{_LIST}<|/tool_call|>",
        end="<|/tool_call|>",
    ),
    "cohere": Published(
        template="<|START_THINKING|><|END_THINKING|><|START_ACTION|>[ <|END_ACTION|>",
        reasoning="I will look.",
        text="",
        answer="<|START_THINKING|>I will look.<|END_THINKING|><|START_ACTION|>[\n    "
        f'{{"tool_call_id": "0", "tool_name": "weather", "parameters": {JSON}}},\n    '
        '{"tool_call_id": "1", "tool_name": "now", "parameters": {}}\n]<|END_ACTION|>',
        guided=f'<|START_ACTION|>[{{"tool_name": "weather", "parameters": {JSON}}}, '
        '{"tool_name": "now", "parameters": {}}]<|END_ACTION|>',
        end="<|END_ACTION|>",
    ),
    "tool-calls": Published(
        template='<tool_calls>[{"name": "func_name1", "arguments": {}}]</tool_calls>'
        "<answer></answer><think></think>",
        reasoning="Hm.",
        answer="<think>\nHm.\n</think>\n<answer>\nI look.\n</answer>"
        f"<tool_calls>{_LIST}</tool_calls>",
        end="</tool_calls>",
    ),
    "hunyuan-3": Published(
        template="<tool_calls><tool_call>name<tool_sep><arg_key>",
        answer="I look.<tool_calls>\n<tool_call>weather<tool_sep>\n<arg_key>city</arg_key>\n"
        '<arg_value>Zürich, "Alt"</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n'
        "</tool_call>\n<tool_call>now<tool_sep>\n</tool_call>\n</tool_calls>",
        end="\n</tool_calls>",
    ),
    "gemma4": Published(
        template="'<|tool_call>call:' + function['name'] + '{' <|channel>thought\\n<channel|>",
        reasoning="Hm.",
        answer='<|channel>thought\nHm.<channel|>I look.<|tool_call>call:weather{city:<|"|>Zürich, '
        '"Alt"<|"|>,days:3}<tool_call|><|tool_call>call:now{}<tool_call|>',
        end="<tool_call|>",
    ),
    "functiongemma": Published(
        template="<start_function_declaration><start_function_call>",
        answer='I look.<start_function_call>call:weather{city:<escape>Zürich, "Alt"<escape>,days:3}'
        "<end_function_call><start_function_call>call:now{}<end_function_call>",
        end="<end_function_call>",
    ),
    "gemma3": Published(
        template="```tool_code\\n",
        answer=f"I look.\n```tool_code\n{_PYTHON}\nnow()\n```",
        guided=f"```tool_code\n{_GUIDED}\nnow()\n```",
        end="\n```",
        bare=True,
    ),
    "internlm": Published(
        template="<|action_start|><|plugin|>",
        answer=f"I look.<|action_start|><|plugin|>\n{_json('weather', JSON, 'parameters')}"
        "<|action_end|><|action_start|><|plugin|>\n"
        f"{_json('now', '{}', 'parameters')}<|action_end|>",
        end="<|action_end|>",
    ),
    "step3": Published(
        template='<｜tool_calls_begin｜><steptml:invoke name="',
        answer="I look.<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜>"
        '<steptml:invoke name="weather"><steptml:parameter name="city">Zürich, "Alt"'
        '</steptml:parameter><steptml:parameter name="days">3</steptml:parameter>'
        "</steptml:invoke><｜tool_call_end｜>\n<｜tool_call_begin｜>function<｜tool_sep｜>"
        '<steptml:invoke name="now"></steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>',
        end="\n<｜tool_calls_end｜>",
    ),
    "nemotron": Published(
        template="<TOOLCALL>[", answer=f"I look.<TOOLCALL>{_LIST}</TOOLCALL>", end="</TOOLCALL>"
    ),
    "apertus": Published(
        template="<|tools_prefix|><|inner_prefix|><|inner_suffix|>",
        reasoning="Hm.",
        answer="<|inner_prefix|>Hm.<|inner_suffix|>I look."
        f'<|tools_prefix|>[{{"weather": {JSON}}}, {{"now": {{}}}}]<|tools_suffix|>',
        end="<|tools_suffix|>",
    ),
    "longcat": Published(
        template="<longcat_tool_call>",
        answer=f"I look.<longcat_tool_call>\n{_json('weather', JSON)}\n</longcat_tool_call>\n"
        f"<longcat_tool_call>\n{_json('now', '{}')}\n</longcat_tool_call>",
        end="\n</longcat_tool_call>",
    ),
    "function-tag": Published(
        template='<function=example_function_name>{"example_name": "example_value"}</function>',
        answer=f"I look.<function=weather>{JSON}</function><function=now>{{}}</function>",
        end="</function>",
    ),
    "harmony": Published(
        template="<|start|>assistant<|channel|>analysis<|message|>",
        reasoning="The user wants the weather.",
        answer="<|channel|>analysis<|message|>The user wants the weather.<|end|><|start|>assistant"
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.weather <|constrain|>json<|message|>{JSON}<|call|><|start|>assistant "
        "to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
        end="<|call|>",
        guided="<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + JSON,
    ),
    "json": Published(
        template="{{ tools }}",
        answer=f"```json\n{_LIST}\n```",
        text="",
        end="\n```",
        guided=f"{_json('weather', JSON)}; {_json('now', '{}')}",
        bare=True,
    ),
}
