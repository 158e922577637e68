"""Calls that are nearly right are repaired, and nothing is invented."""

import json
import time

import pytest
from msgspec import Raw, Struct

from strowger_gateway.local_engine.answer_formats.call_parser import ToolCallParser
from strowger_gateway.local_engine.answer_formats.calls import Functions
from strowger_gateway.local_engine.answer_formats.catalogue import format_of
from strowger_gateway.local_engine.answer_formats.harmony import HarmonyParser
from strowger_gateway.local_engine.answer_formats.reasoning import ReasoningSplit, Thinking
from strowger_gateway.local_engine.answer_formats.typed_values import kinds_of, typed
from strowger_gateway.schemas.events import TextDelta, ToolDelta
from tests.local_engine.answer_formats.published import PUBLISHED

SCHEMA = {
    "type": "object",
    "properties": {
        "cmd": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "env": {"type": "object"},
        "args": {"$ref": "#/$defs/args"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "note": {"type": ["string", "null"]},
        "level": {"enum": [1, 2, "max"]},
        "any": {},
    },
    "$defs": {"args": {"type": "array", "items": {"type": "string"}}},
}
FUNCTIONS = Functions({"run": Raw(json.dumps(SCHEMA).encode()), "now": Raw(b'{"type": "object"}')})


class Near(Struct, frozen=True, kw_only=True):
    """calls: the arguments of each call of `run`. text: what is left as text."""

    format: str
    answer: str
    calls: tuple[object, ...] = ()
    text: str = ""


def hermes(inside: str, *calls: object, text: str = "") -> Near:
    answer = f"<tool_call>\n{inside}\n</tool_call>"
    return Near(format="hermes", answer=answer, calls=calls, text=text)


def stays(inside: str) -> Near:
    return hermes(inside, text=f"<tool_call>\n{inside}\n</tool_call>")


def qwen(inside: str, *calls: object, before: str = "<tool_call>\n<function=run>\n") -> Near:
    return Near(format="qwen-xml", answer=before + inside, calls=calls)


def parameter(name: str, value: str) -> str:
    return f"<parameter={name}>\n{value}\n</parameter>\n"


LS = {"cmd": "ls"}
END = "</function>\n</tool_call>"
FILE = "a\n</function>\n</tool_call>\nb"
CODE = "  if x:\n\n    y\n"
CALL = '{"name": "run", "arguments": {"cmd": "ls"}}'

JSON = {
    "a last brace is missing": hermes('{"name": "run", "arguments": {"cmd": "ls"}', LS),
    "a brace is too many": hermes('{"name": "run", "arguments": {"cmd": "ls"}}}', LS),
    "unknown escapes": hermes(
        r'{"name": "run", "arguments": {"cmd": "grep \d+ \"a\"\n"}}', {"cmd": 'grep \\d+ "a"\n'}
    ),
    "a path": hermes(
        r'{"name": "run", "arguments": {"cmd": "C:\path\new \\d+"}}', {"cmd": "C:\\path\\new \\d+"}
    ),
    "two objects": hermes(f"{CALL}\n{CALL}", LS, LS),
    "two objects and a comma": hermes(f"{CALL}, {CALL}", LS, LS),
    "a list": hermes(f"[{CALL}, {CALL}]", LS, LS),
    "a list without its end": hermes(f"[{CALL}, {CALL}", LS, LS),
    "the mark twice": hermes(f"<tool_call>\n{CALL}", LS),
    "a comma at the end": hermes('{"name": "run", "arguments": {"cmd": "ls",},}', LS),
    "single quotes": hermes(
        "{'name': 'run', 'arguments': {'cmd': 'it\\'s', 'deep': True, 'limit': None}}",
        {"cmd": "it's", "deep": True, "limit": None},
    ),
    "a line break in a string": hermes(
        '{"name": "run", "arguments": {"cmd": "a\nb\tc"}}', {"cmd": "a\nb\tc"}
    ),
    "bare keys": hermes('{name: "run", arguments: {cmd: "ls"}}', LS),
    "half a character": hermes(
        '{"name": "run", "arguments": {"cmd": "a\\ud83d"}}', {"cmd": "a\ufffd"}
    ),
    "arguments in a string": hermes('{"name": "run", "arguments": "{\\"cmd\\": \\"ls\\"}"}', LS),
    "no arguments": hermes('{"name": "run", "arguments": null}', {}),
    "another key": hermes('{"name": "run", "parameters": {"cmd": "ls"}}', LS),
    "as in a request": hermes(
        '{"type": "function", "function": {"name": "run", "arguments": {"cmd": "ls"}}}', LS
    ),
    "a mark in a string": hermes(
        '{"name": "run", "arguments": {"cmd": "</tool_call>"}}', {"cmd": "</tool_call>"}
    ),
    "arguments that do not end": stays('{"name": "run", "arguments": {"cmd": "ls"'),
    "a string that does not end": stays('{"name": "run", "arguments": {"cmd": "ls}}'),
    "a value is missing": stays('{"name": "run", "arguments": {"cmd": }}'),
    "arguments are a list": stays('{"name": "run", "arguments": ["ls"]}'),
    "curly quotes": stays("{“name”: “run”, “arguments”: {}}"),
    "an infinite number": stays('{"name": "run", "arguments": {"ratio": 1e999, }}'),
    "not a call": stays('{"cmd": "ls"}'),
}

TAGS = {
    "types from the schema": qwen(
        parameter("cmd", "3")
        + parameter("count", "3")
        + parameter("ratio", "1.50")
        + parameter("deep", "True")
        + parameter("env", '{"A": "b"}')
        + parameter("args", "['a', 'b']")
        + parameter("limit", "null")
        + parameter("note", "null")
        + parameter("level", "max")
        + parameter("any", "[1]")
        + END,
        {
            "cmd": "3",
            "count": 3,
            "ratio": 1.5,
            "deep": True,
            "env": {"A": "b"},
            "args": ["a", "b"],
            "limit": None,
            "note": None,
            "level": "max",
            "any": [1],
        },
    ),
    "values of another type stay strings": qwen(
        parameter("count", "many") + parameter("deep", "maybe") + parameter("other", "x y") + END,
        {"count": "many", "deep": "maybe", "other": "x y"},
    ),
    "whole numbers": qwen(parameter("count", "3.0") + END, {"count": 3}),
    "blanks are kept": qwen(
        parameter("cmd", "  if x:\n\n    y\n") + END, {"cmd": "  if x:\n\n    y\n"}
    ),
    "marks in a value": qwen(parameter("cmd", FILE) + END, {"cmd": FILE}),
    "a value is not closed": qwen(
        "<parameter=count>\n3\n<parameter=cmd>\nls\n" + END, {"count": 3, **LS}
    ),
    "the first mark is missing": qwen(parameter("cmd", "ls") + END, LS, before="<function=run>\n"),
    "the last marks are missing": qwen(parameter("cmd", "ls"), LS),
    "the function is not closed": qwen(parameter("cmd", "ls") + "</tool_call>", LS),
    "quotes around the name": qwen(parameter("cmd", "ls") + END, LS, before='<function="run">\n'),
    "JSON instead": qwen(CALL + "\n</tool_call>", LS, before="<tool_call>\n"),
    "glm on one line": Near(
        format="glm",
        answer="<tool_call>run<arg_key>cmd</arg_key><arg_value>ls</arg_value></tool_call>",
        calls=(LS,),
    ),
    "dsml says what is a string": Near(
        format="deepseek-dsml",
        answer='<｜DSML｜function_calls><｜DSML｜invoke name="run"><｜DSML｜parameter name="any" '
        'string="true">3</｜DSML｜parameter><｜DSML｜parameter name="count" string="false">3'
        "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
        calls=({"any": "3", "count": 3},),
    ),
}

OTHERS = {
    "python": Near(
        format="pythonic",
        answer="[run(cmd='it\\'s \"x\"', count=-3, deep=False, limit=None, env={'a': (1, 2)}, "
        "args=[],), run(cmd='''a\nb''', deep=true)]",
        calls=(
            {
                "cmd": 'it\'s "x"',
                "count": -3,
                "deep": False,
                "limit": None,
                "env": {"a": [1, 2]},
                "args": [],
            },
            {"cmd": "a\nb", "deep": True},
        ),
    ),
    "python without names": Near(format="pythonic", answer='[run("ls")]', text='[run("ls")]'),
    "a list is not a call": Near(format="pythonic", answer="[1, 2] and [a]", text="[1, 2] and [a]"),
    "python in a model of JSON": Near(format="llama", answer='[run(cmd="ls")]', calls=(LS,)),
    "JSON without a mark": Near(
        format="llama", answer='{"name": "Bob", "age": 3} x', text='{"name": "Bob", "age": 3} x'
    ),
    "gemma's values": Near(
        format="gemma4",
        answer='<|tool_call>call:run{cmd:<|"|>a "b", {c}<|"|>,env:{<|"|>k<|"|>:'
        '[1,true,<|"|>x<|"|>]},'
        "note:bare words}<tool_call|>",
        calls=({"cmd": 'a "b", {c}', "env": {"k": [1, True, "x"]}, "note": "bare words"},),
    ),
    "kimi without the section": Near(
        format="kimi-k2",
        answer='<|tool_call_begin|>run:0<|tool_call_argument_begin|>{"cmd": "ls"}<|tool_call_end|>',
        calls=(LS,),
    ),
    "deepseek without the section": Near(
        format="deepseek-v3.1",
        answer='<｜tool▁call▁begin｜>run<｜tool▁sep｜>{"cmd": "ls",}<｜tool▁call▁end｜>',
        calls=(LS,),
    ),
    "mistral's ids": Near(
        format="mistral-v11",
        answer='[TOOL_CALLS]run[CALL_ID]a1b2c3d4e[ARGS]{"cmd": "ls"}',
        calls=(LS,),
    ),
    "mistral's newer form": Near(
        format="mistral", answer='[TOOL_CALLS]run[ARGS]{"cmd": "ls"}', calls=(LS,)
    ),
    "hunyuan's code": Near(
        format="tool-calls",
        answer='<tool_calls>\n<tool_call>run\n```json\n{"cmd": "ls"}\n```\n</tool_call>\n'
        "</tool_calls>",
        calls=(LS,),
    ),
    "a list without marks": Near(format="json", answer=f"[{CALL}, {CALL}]", calls=(LS, LS)),
}
MENTIONS = {
    f"{mark} in a text": Near(
        format="qwen-xml", answer=f"Use {mark} in it.\nSo.", text=f"Use {mark} in it.\nSo."
    )
    for mark in ("<function=NAME>", "<function=run>", "<tool_call>", "<tool_call><function=run>")
}
CASES = {**JSON, **TAGS, **OTHERS, **MENTIONS}


def read(case: Near, *pieces: str) -> tuple[str, list[ToolDelta]]:
    format = format_of(PUBLISHED[case.format].template)
    parser = ToolCallParser(format, FUNCTIONS, guaranteed=False, required=False, index=0)
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return text, [event for event in events if isinstance(event, ToolDelta)]


@pytest.mark.parametrize("name", CASES)
def test_what_is_nearly_right_is_repaired_and_nothing_is_invented(name: str) -> None:
    case = CASES[name]

    text, calls = read(case, case.answer)
    slow_text, slow_calls = read(case, *case.answer)

    assert [json.loads(call.arguments) for call in calls] == list(case.calls)
    assert {call.name for call in calls} <= {"run"}
    assert text == case.text
    assert slow_text == text
    assert [call.arguments for call in slow_calls] == [call.arguments for call in calls]


def test_arguments_that_are_json_are_passed_on_as_written() -> None:
    text = '{"cmd":   "\\u006cs", "ratio": 1.50}'

    _, calls = read(hermes(f'{{"name": "run", "arguments": {text}}}'), CASES["a list"].answer)
    _, calls = read(CASES["a list"], f'<tool_call>{{"name": "run", "arguments": {text}}}')

    assert [call.arguments for call in calls] == [text]


def test_ids_that_the_template_needs_are_those_that_the_model_wrote() -> None:
    begin, args = "<|tool_call_begin|>", "<|tool_call_argument_begin|>{}<|tool_call_end|>"
    kimi = Near(format="kimi-k2", answer="")

    _, calls = read(kimi, f"{begin}functions.run:4{args}{begin}run{args}")
    _, mistral = read(CASES["mistral's ids"], CASES["mistral's ids"].answer)

    assert [call.id for call in calls] == ["functions.run:4", "functions.run:1"]
    assert [call.id for call in mistral] == ["a1b2c3d4e"]


def test_deep_brackets_stay_text() -> None:
    deep = '{"name": "run", "arguments": {"any": ' + "[" * 5000 + "]" * 5000 + ",}}"

    text, calls = read(CASES["a list"], f"<tool_call>{deep}</tool_call>")

    assert not calls
    assert deep in text


LOOP = 60_000
"""Characters of a loop; reading all of them again with every token would take many seconds."""

LOOPS = {
    "blanks after a mark": ("hermes", "<tool_call>" + "\n" * LOOP),
    "blanks in a text": ("hermes", "hi" + "\n" * LOOP),
    "blanks at the beginning": ("pythonic", "\n" * LOOP),
    "commas after a call": ("hermes", f"<tool_call>{CALL}" + ",\n" * (LOOP // 2)),
    "brackets after a call": ("hermes", f"<tool_call>{CALL}" + "}" * LOOP),
    "marks of arguments": (
        "qwen-xml",
        "<function=run>" + "<parameter=>" * (LOOP // 4) + "</parameter></function>",
    ),
    "escaped quotation marks": (
        "hermes",
        '<tool_call>{"name": "run", "arguments": {"cmd": "\n' + '\\"' * LOOP + '"}}</tool_call>',
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_an_answer_in_a_loop_is_read_in_time_that_grows_with_its_length(name: str) -> None:
    format, answer = LOOPS[name]
    pieces = [answer[at : at + 4] for at in range(0, len(answer), 4)]

    begun = time.process_time()
    read(Near(format=format, answer=answer), *pieces)

    assert time.process_time() - begun < 2


@pytest.mark.parametrize("answer", ["\n" * LOOP, "<think>a" + "\n" * LOOP])
def test_reasoning_in_a_loop_is_read_in_time_that_grows_with_its_length(answer: str) -> None:
    split = ReasoningSplit(Thinking(open="<think>", close="</think>"), opened=False)

    begun = time.process_time()
    pairs = [split.feed(answer[at : at + 4]) for at in range(0, len(answer), 4)]
    pairs += [split.feed("b </think>c"), split.close()]

    assert time.process_time() - begun < 2
    whole = ("".join(thought for thought, _ in pairs), "".join(said for _, said in pairs))
    blanks = "\n" * LOOP
    assert whole == ((f"a{blanks}b", "c") if "a" in answer else ("", f"{blanks}b </think>c"))


@pytest.mark.parametrize("mark", ["<|channel|>", "<|start|>"])
def test_harmony_s_marks_in_a_loop_end(mark: str) -> None:
    parser = HarmonyParser(FUNCTIONS, tools=True, index=0, begun=False)

    events = [event for _ in range(500) for event in parser.feed(mark)] + parser.close()

    assert mark in "".join(event.text for event in events if isinstance(event, TextDelta))


def test_schemas_that_refer_to_themselves_in_many_alternatives_are_read_once() -> None:
    alternatives = [{"$ref": "#/$defs/any"}] * 20
    schema = {
        "properties": {"cmd": {"$ref": "#/$defs/any"}},
        "$defs": {"any": {"anyOf": [*alternatives, {"type": "integer"}, {"type": "string"}]}},
    }

    assert kinds_of(schema["properties"]["cmd"], schema) == ["integer", "string"]
    assert typed("3", "cmd", schema) == "3"
