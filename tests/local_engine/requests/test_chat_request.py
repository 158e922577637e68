"""What a chat request's grammar permits, in the format of each model family."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest
import torch
from msgspec import UNSET, Raw

from strowger_gateway.local_engine.config import ModelConfig
from strowger_gateway.local_engine.guided.compiler import GuideCompiler
from strowger_gateway.local_engine.requests.chat_request import ChatReader
from strowger_gateway.local_engine.text.text_length import Reach
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.messages import FunctionTool, Message, ResponseFormat, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest
from tests.local_engine.conftest import Folder
from tests.local_engine.guided.compiled_grammars import END
from tests.local_engine.tiny import VOCABULARY

pytestmark = pytest.mark.anyio

F = FunctionTool(
    name="f",
    parameters=Raw(
        b'{"properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}'
    ),
    strict=True,
)
G = FunctionTool(name="g")
DIGITS = ResponseFormat(type="opaque", raw=Raw(b'{"type":"regex","pattern":"[0-9]+"}'))
OBJECT = ResponseFormat(type="json_object")

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
EMPTY = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
WRONG = '<tool_call>\n{"name": "f", "arguments": {"b": 1}}\n</tool_call>'
LIST = '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]'
BARE = '{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}'

BEGIN, ARGUMENTS = "<|tool_call_begin|>functions.", "<|tool_call_argument_begin|>"
KIMI = (
    f'<|tool_calls_section_begin|>{BEGIN}f:0{ARGUMENTS}{{"a": 1}}<|tool_call_end|>'
    f"{BEGIN}g:1{ARGUMENTS}{{}}<|tool_call_end|><|tool_calls_section_end|>"
)
GEMMA = "<|tool_call>call:f{a:1}<tool_call|><|tool_call>call:g{}<tool_call|>"
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" '
    'string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
)
ANALYSIS = "<|channel|>analysis<|message|>so<|end|><|start|>assistant"
TO_F = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}'
FINAL = "<|channel|>final<|message|>"


def request(choice: str = "auto", *, parallel: bool = True) -> ChatRequest:
    named = choice not in {"auto", "required", "none"}
    return ChatRequest(
        model="tiny",
        messages=(Message(role="user", content="go on"),),
        tools=(F, G),
        tool_choice=ToolChoice(
            mode="named" if named else choice,  # pyright: ignore[reportArgumentType]  # a literal
            name=choice if named else UNSET,
        ),
        parallel_tool_calls=parallel,
    )


def matching(form: ResponseFormat) -> ChatRequest:
    return ChatRequest(
        model="tiny", messages=(Message(role="user", content="go on"),), response_format=form
    )


ONE = request("required", parallel=False)
EITHER = msgspec.structs.replace(request(), response_format=DIGITS)
CASES: list[tuple[str, ChatRequest, str, bool]] = [
    (talker, sent, text, right)
    for talkers, sent, texts in [
        (
            ("hermes", "hermes-text"),
            request("required"),
            {CALL: True, f"{CALL}\n{EMPTY}": True, "": False, "so": False, f"so {CALL}": False},
        ),
        (
            ("hermes", "hermes-text"),
            ONE,
            {CALL: True, EMPTY: True, f"{CALL}\n{EMPTY}": False, WRONG: False},
        ),
        (("hermes", "hermes-text"), request("g"), {EMPTY: True, CALL: False}),
        (
            ("hermes", "hermes-text"),
            request(),
            {"": True, "so < 1\n": True, CALL: True, f"so\n{CALL}\n{EMPTY} so": True, WRONG: False},
        ),
        (
            ("hermes", "hermes-text"),
            request(parallel=False),
            {CALL: True, f"so {CALL} so": True},
        ),
        (("hermes",), request(parallel=False), {f"{CALL}\n{EMPTY}": False}),
        (("hermes",), EITHER, {CALL: True, "12": True, "so": False, f"12{CALL}": False}),
        (("mistral-calls",), request("required"), {LIST: True, "so": False}),
        (("mistral-calls",), request(), {LIST: True, f"so{LIST}": True, "so": True}),
        (("llama-calls",), request("required"), {BARE: True, "so": False}),
        (("llama-calls",), request(), {BARE: True, "so": True, '{"a': False}),
        (
            ("generic",),
            request("required"),
            {BARE.replace("parameters", "arguments"): True, BARE: False},
        ),
        (
            ("thinker",),
            matching(DIGITS),
            {"12": True, "<think>so</think>\n12": True, "<think>so": False, "so": False},
        ),
        (("thinker",), ONE, {CALL: True, f"<think>so {{</think>\n\n{CALL}": True}),
        (("kimi-calls",), request("required"), {KIMI: True, "so": False, f"so{KIMI}": False}),
        (("kimi-calls",), request(), {KIMI: True, f"so{KIMI}": True, "so": True}),
        (
            ("gemma-calls",),
            request("required"),
            {GEMMA: True, f"<|channel>thought\nso<channel|>{GEMMA}": True, "so": False},
        ),
        (("dsml",), request("required"), {DSML: True, "so": False}),
        (("dsml",), request(), {DSML: True, f"so{DSML}": True, "so <": True}),
        (("gemma-calls",), request(), {f"so{GEMMA}so": True, GEMMA.replace("a:1", "a:b"): False}),
        (
            ("harmony",),
            request("required"),
            {TO_F: True, ANALYSIS + TO_F: True, FINAL + "so": False, "so": False},
        ),
        (("harmony",), request(), {TO_F: True, f"{ANALYSIS}{FINAL}so": True, FINAL: True}),
        (
            ("harmony",),
            matching(DIGITS),
            {f"{FINAL}12": True, f"{ANALYSIS}{FINAL}12": True, "12": False, f"{FINAL}so": False},
        ),
        (
            ("opened", "opened-text"),
            matching(DIGITS),
            {"so <b> </think>\n\n12": True, "</think>12": True, "12": False, "so</think>": False},
        ),
        (
            ("opened", "opened-text"),
            matching(OBJECT),
            {'so</think>\n{"a": [1, {}]}': True, '</think>{"a": ': False, "</think>[]": False},
        ),
    ]
    for talker in talkers
    for text, right in texts.items()
]


ROOMY = Reach(tokens=10_000)


async def accepts(folder: Path, sent: ChatRequest, text: str, *, holds_calls: bool = False) -> bool:
    """Return whether each token of the text, and then its end, is permitted."""
    tokenizer = Tokenizer(str(folder))
    guides = GuideCompiler(
        tokenizer.describe(), vocabulary=VOCABULARY, known=tokenizer.size, ends=frozenset({END})
    )
    guide = ChatReader(tokenizer, guides, ROOMY, holds_calls=holds_calls).read(sent).guide
    assert guide is not None
    grammar = await guides.compile(guide, frozenset({END}))
    row = torch.zeros(VOCABULARY, dtype=torch.bool)
    for token in tokenizer.encode(text, special=False):
        grammar.allow(row)
        if not row[token]:
            return False
        grammar.advance(token)
    assert grammar.failure == ""
    grammar.allow(row)
    return bool(row[END])


@pytest.mark.parametrize(("talker", "sent", "text", "right"), CASES)
async def test_a_model_may_write_only_what_the_request_permits(
    folder: Folder, talker: str, sent: ChatRequest, text: str, right: bool
) -> None:
    assert await accepts(folder(talker), sent, text) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [(CALL, True), ("so", True), ("", True), (f"so {EMPTY}", True), (WRONG, False)],
)
async def test_a_model_whose_calls_are_held_follows_schemas_that_are_not_strict(
    folder: Folder, text: str, right: bool
) -> None:
    loose = msgspec.structs.replace(
        request(), tools=(msgspec.structs.replace(F, strict=False), G), tool_choice=UNSET
    )

    assert await accepts(folder("hermes"), loose, text, holds_calls=True) is right


@pytest.mark.parametrize(
    ("path", "chosen", "held"),
    [
        ("bundled:tiny-chat", None, True),
        ("bundled:tiny-chat", "free", False),
        ("Qwen/Qwen3-0.6B", None, False),
        ("Qwen/Qwen3-0.6B", "schema", True),
    ],
)
def test_calls_are_held_for_bundled_models_and_where_the_operator_says_so(
    path: str, chosen: Literal["free", "schema"] | None, *, held: bool
) -> None:
    assert ModelConfig(name="m", path=path, tool_calls=chosen).holds_calls is held


def test_a_request_without_constraints_has_no_grammar(folder: Folder) -> None:
    tokenizer = Tokenizer(str(folder("hermes")))
    guides = GuideCompiler(
        tokenizer.describe(), vocabulary=VOCABULARY, known=1, ends=frozenset({END})
    )
    loose = msgspec.structs.replace(request(), tools=(G,))

    chat = ChatReader(tokenizer, guides, ROOMY).read(loose)

    assert chat.guide is None
    assert chat.output_format is not None
    assert chat.output_format.tools is not None


@pytest.mark.parametrize(
    ("talker", "texts"),
    [
        ("kimi-calls", {"<|tool_call_begin|>", "<|tool_call_end|>"}),
        ("gemma-calls", {"<|channel>", "<channel|>", '<|"|>'}),
        ("dsml", {"｜DSML｜"}),
        ("harmony", {"<|channel|>", "<|message|>", "<|end|>"}),
        ("hermes", set[str]()),
    ],
)
def test_special_tokens_in_the_marks_are_read_although_decoders_leave_them_out(
    folder: Folder, talker: str, texts: set[str]
) -> None:
    tokenizer = Tokenizer(str(folder(talker)))
    guides = GuideCompiler(
        tokenizer.describe(), vocabulary=VOCABULARY, known=1, ends=frozenset({END})
    )

    output_format = ChatReader(tokenizer, guides, ROOMY).read(request()).output_format

    assert output_format is not None
    assert texts <= set(output_format.literals.values())
    assert bool(texts) is bool(output_format.literals)
    assert all(tokenizer.token_of(text) == token for token, text in output_format.literals.items())


@pytest.mark.parametrize(
    ("begun", "reasons"), [("<think>Hm", True), ("<think>Hm</think>So", False), ("So", False)]
)
def test_an_answer_that_the_client_began_goes_on_inside_its_reasoning(
    folder: Folder, begun: str, *, reasons: bool
) -> None:
    tokenizer = Tokenizer(str(folder("thinker")))
    guides = GuideCompiler(
        tokenizer.describe(), vocabulary=VOCABULARY, known=1, ends=frozenset({END})
    )
    messages = (Message(role="user", content="go on"), Message(role="assistant", content=begun))
    sent = ChatRequest(model="tiny", messages=messages, begun=True)

    output_format = ChatReader(tokenizer, guides, ROOMY).read(sent).output_format

    assert (output_format is not None and output_format.opened) is reasons
