"""Grammars of calls: they accept what models write, and what they write is read as valid calls."""

import json
import random
from functools import cache

import jsonschema
import numpy
import pytest
from llguidance import LLMatcher, LLTokenizer
from msgspec import Raw

from strowger_gateway.local_engine.answer_formats.catalogue import (
    FORMATS,
    GENERIC,
    HARMONY,
    format_of,
)
from strowger_gateway.local_engine.answer_formats.formats import ToolFormat
from strowger_gateway.local_engine.child_process.grammar_compiler import compiled
from strowger_gateway.local_engine.guided.compiler import quote
from strowger_gateway.local_engine.requests.output_parser import OutputFormat, OutputParser
from strowger_gateway.local_engine.requests.response_constraints import guide_of
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.messages import FunctionTool
from tests.local_engine.answer_formats.published import FUNCTIONS, PUBLISHED
from tests.local_engine.guided.compiled_grammars import BACKEND, END, KNOWN

PUBLISHED_TOOLS = tuple(
    FunctionTool(name=name, parameters=schema) for name, schema in FUNCTIONS.items()
)
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["°C", "K"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "place": {"$ref": "#/$defs/place"},
        "exact": {"type": "boolean"},
    },
    "required": ["days", "place"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"at": {"enum": ["a", "b"]}},
            "required": ["at"],
            "additionalProperties": False,
        }
    },
}
DRAWN_TOOLS = (
    FunctionTool(name="get-weather", parameters=Raw(json.dumps(SCHEMA).encode())),
    FunctionTool(name="now"),
)


@cache
def tokenizer() -> LLTokenizer:
    return LLTokenizer(BACKEND.to_str(), n_vocab=KNOWN, eos_token=[END])


def answer_of(
    format: ToolFormat, tools: tuple[FunctionTool, ...], *, required: bool
) -> OutputFormat:
    return OutputFormat(
        tools=format,
        functions={tool.name: tool.parameters for tool in tools},
        guaranteed=True,
        required=required,
        channels=format is HARMONY,
    )


def matcher_of(output_format: OutputFormat, tools: tuple[FunctionTool, ...]) -> LLMatcher:
    guide = guide_of(output_format, body=None, tools=tools, parallel=True, spell=quote)
    assert guide is not None
    matcher, result = compiled(tokenizer(), guide)
    assert matcher is not None, result.problem
    return matcher


def written(matcher: LLMatcher, chance: random.Random, begin: str) -> str:
    """Draw an answer that the grammar permits, which ends as soon as it may."""
    drawn = BACKEND.encode(begin).ids
    assert matcher.consume_tokens(drawn)
    while not matcher.is_accepting() and len(drawn) < 2000:
        bits = numpy.frombuffer(matcher.compute_bitmask(), dtype=numpy.uint8)
        allowed = numpy.unpackbits(bits, bitorder="little")[:KNOWN].nonzero()[0].tolist()
        token = chance.choice([one for one in allowed if one != END])
        assert matcher.consume_token(token)
        drawn.append(token)
    return BACKEND.decode(drawn, skip_special_tokens=False)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_grammar_accepts_the_calls_that_the_model_was_trained_to_write(name: str) -> None:
    case = PUBLISHED[name]
    format = format_of(case.template)
    calls = case.guided or case.answer[case.answer.find(format.open) :]

    for required in (True, False):
        output_format = answer_of(format, PUBLISHED_TOOLS, required=required)
        matcher = matcher_of(output_format, PUBLISHED_TOOLS)
        tokens = BACKEND.encode(calls).ids
        assert matcher.validate_tokens(tokens) == len(tokens), calls
        assert matcher.consume_tokens(tokens)
        assert matcher.is_accepting()


@pytest.mark.parametrize("format", [*FORMATS, GENERIC], ids=lambda format: format.name)
def test_calls_that_a_grammar_writes_match_their_schemas(format: ToolFormat) -> None:
    output_format = answer_of(format, DRAWN_TOOLS, required=True)
    begin = "<|channel|>commentary" if format is HARMONY else ""

    for seed in range(3):
        text = written(matcher_of(output_format, DRAWN_TOOLS), random.Random(seed), begin)
        parser = OutputParser(output_format, 0)
        fold = Fold()
        for character in text:
            fold.add(parser.feed(character))
        fold.add(parser.close())
        (choice,) = fold.answer().choices
        assert not choice.text, text
        assert choice.tool_calls, text
        for call in choice.tool_calls:
            schema = SCHEMA if call.name == "get-weather" else {"maxProperties": 0}
            validator = jsonschema.Draft202012Validator(schema)
            validator.validate(json.loads(call.arguments))  # pyright: ignore[reportUnknownMemberType]  # jsonschema
