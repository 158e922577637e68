"""Translate a chat request's constraints on its answer into rules for the grammar compiler.

Syntax: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec
from llguidance import regex_to_lark
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.local_engine.answer_formats.catalogue import HARMONY
from strowger_gateway.local_engine.answer_formats.formats import ToolFormat
from strowger_gateway.local_engine.answer_formats.reasoning import Thinking
from strowger_gateway.local_engine.child_process.messages import Guide, Part
from strowger_gateway.local_engine.guided.compiler import quote
from strowger_gateway.local_engine.requests.call_grammars import (
    PROSE,
    CallGrammar,
    GrammarFunction,
    Spell,
)
from strowger_gateway.local_engine.requests.output_parser import OutputFormat
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import FunctionTool, ResponseFormat

MAX_GBNF = 16 * 1024
"""Characters; the translation to lark is plain Python and slow for many rules."""

_BLANKS = r"[ \t\r\n]{1,20}"
"""Blanks between reasoning and answer, and between parts of JSON if the schema allows them there;
without a limit, some models write only blanks."""

_COMPACT: dict[str, object] = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
}
"""Layout of JSON: one line, with at most one space after a comma or colon.

https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md#whitespace-handling
"""

_OPTIONS = "x-guidance"
"""Key under which a schema overrides the layout."""


class Body(Struct, frozen=True, kw_only=True):
    """The constraint that replaces free text. rule: the right side of a lark rule."""

    field: str
    rule: str
    client: str = ""
    gbnf: bool = False


class _Pattern(Struct, frozen=True, kw_only=True):
    pattern: str


class _Grammar(Struct, frozen=True, kw_only=True):
    definition: str
    syntax: Literal["lark", "ebnf"] = "lark"


class _Typed(Struct, frozen=True, kw_only=True):
    type: str = ""


_object = msgspec.json.Decoder(dict[str, object])
_encode = msgspec.json.Encoder().encode


def body_of(format: ResponseFormat | UnsetType) -> Body | None:
    """Return the constraint, or `None` for free text. Raises InvalidRequest naming the field."""
    if format is UNSET or format.type == "text":
        return None
    if format.type == "opaque":
        return _other(format.raw)
    field = "response_format"
    if format.type == "json_object":
        return Body(field=field, rule=_json({"type": "object"}, strict=False))
    field = "response_format.json_schema.schema"
    if format.schema is UNSET:
        raise InvalidRequest(f"{field}: a schema is missing", param=field)
    return Body(field=field, rule=_json(_schema(format.schema, field), strict=bool(format.strict)))


def guide_of(
    output_format: OutputFormat,
    *,
    body: Body | None,
    tools: Sequence[FunctionTool],
    parallel: bool,
    spell: Spell,
) -> Guide | None:
    """Return the grammar of the answer, or `None` without constraints.

    tools: the functions that may be called; unless `output_format` is `guaranteed`, calls are
           free text.
    """
    format = output_format.tools if output_format.guaranteed else None
    if body is None and format is None:
        return None
    rules: list[str] = []
    think = ""
    if output_format.channels and not output_format.opened:
        rules, think = _channels(spell), "think "
    elif output_format.thinking is not None:
        rules, think = _thinking(output_format.thinking, output_format.opened, spell), "think "
    parts: list[Part] = []
    if body is not None:
        rules.append(f"body: {body.rule}")
        parts.append(Part(field=body.field, lark=f"start: {body.rule}"))
    if format is not None:
        called, arguments = _calls(format, tools, parallel, spell)
        rules += called
        parts += arguments
    rules.append(f"start: {think}{_answer(output_format, body, parallel)}")
    return Guide(
        lark="\n".join([*rules, f"PROSE: {PROSE}", f"BLANKS: /{_BLANKS}/"]),
        parts=tuple(parts),
        client="" if body is None else body.client,
        gbnf=body is not None and body.gbnf,
    )


def _answer(output_format: OutputFormat, body: Body | None, parallel: bool) -> str:
    """Return the rule for the text after the reasoning."""
    format = output_format.tools
    final = "final " if output_format.channels and not output_format.opened else ""
    if not output_format.guaranteed or format is None:
        return f"{final}body"
    if output_format.required:
        return "calls"
    if body is not None:
        return f"(calls | {final}body)"
    if format is HARMONY:
        return f"(calls | {final}PROSE?)"
    if format.bare:
        return r"(calls | /[^{\[\s](.|\n)*/)?"
    if format.section:
        return "(opening opened PROSE? | PROSE)?"
    return f"(opening opened){'*' if parallel else '?'} PROSE?"


def _channels(spell: Spell) -> list[str]:
    """Return the rules for harmony: `think` for its reasoning, and `final` before a text."""
    channel, message = spell("<|channel|>"), spell("<|message|>")
    again = f'{spell("<|end|>")} {spell("<|start|>")} "assistant"'
    return [
        f'think: ({channel} "analysis" {message} PROSE? {again})?',
        f'final: {channel} "final" {message}',
    ]


def _thinking(markers: Thinking, opened: bool, spell: Spell) -> list[str]:
    """Return the rule `think`: the rest of the reasoning, or all of it if the model reasons."""
    closing = _until(spell(markers.close))
    whole = "thought BLANKS?" if opened else f"({spell(markers.open)} thought BLANKS?)?"
    return [f"think: {whole}", closing.format(name="thought")]


def _until(marker: str) -> str:
    """Return a rule `{name}`: free text up to and including a marker, which is a token or text."""
    if "<[" in marker:
        return "{name}: PROSE? " + marker
    return r"{name}[lazy]: /(.|\n)*/ " + marker.replace("{", "{{").replace("}", "}}")


def _calls(
    format: ToolFormat, tools: Sequence[FunctionTool], parallel: bool, spell: Spell
) -> tuple[list[str], list[Part]]:
    """Return the rules of calls, and each function's arguments."""
    functions: list[GrammarFunction] = []
    parts: list[Part] = []
    for place, tool in enumerate(tools):
        field = f"tools[{place}].function.parameters"
        rule = _arguments(tool, field)
        schema = {} if tool.parameters is UNSET else _schema(tool.parameters, field)
        functions.append(GrammarFunction(name=tool.name, schema=schema, rule=rule))
        parts.append(Part(field=field, lark=f"start: {rule}"))
    if format is HARMONY:
        return _harmony_calls(functions, spell), parts
    grammar = CallGrammar(format, spell=spell, json_rule=lambda schema: _json(schema, strict=False))
    return grammar.rules(functions, parallel=parallel), parts


def _harmony_calls(functions: Sequence[GrammarFunction], spell: Spell) -> list[str]:
    """Harmony has one call per answer: the model stops after it."""
    json = f'{spell("<|constrain|>")} "json" {spell("<|message|>")}'
    rules = [
        f"call_{place}: {quote(f'commentary to=functions.{one.name} ')} {json} args_{place}"
        for place, one in enumerate(functions)
    ]
    rules += [f"args_{place}: {one.rule}" for place, one in enumerate(functions)]
    calls = " | ".join(f"call_{place}" for place in range(len(functions)))
    return [*rules, f"calls: {spell('<|channel|>')} ({calls})"]


def _arguments(tool: FunctionTool, field: str) -> str:
    if tool.parameters is UNSET:
        return '"{}"'
    schema = _schema(tool.parameters, field)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise InvalidRequest(f"{field}.type: must be object, not {kind}", param=field)
    return _json({**schema, "type": "object"}, strict=bool(tool.strict))


def _json(schema: dict[str, object], *, strict: bool) -> str:
    """strict: reject keywords that cannot be enforced; otherwise ignore them."""
    options = {**_layout(schema.get(_OPTIONS)), "lenient": not strict}
    return "%json " + _encode({**schema, _OPTIONS: options}).decode()


def _layout(wanted: object) -> dict[str, object]:
    """Return the compiler's options for blanks. wanted: the schema's, checked by the compiler."""
    own = cast("dict[str, object]", wanted) if isinstance(wanted, dict) else {}
    flexible = own.get("whitespace_flexible", "whitespace_pattern" in own)
    if flexible is False:
        return {**_COMPACT, **own}
    return {"whitespace_flexible": flexible, "whitespace_pattern": _BLANKS, **own}


def _regex(pattern: str) -> str:
    return f"/{regex_to_lark(pattern)}/" if pattern else '""'


def _schema(raw: Raw, field: str) -> dict[str, object]:
    try:
        return _object.decode(raw)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise InvalidRequest(
            f"{field}: must be a JSON schema (an object): {exc}", param=field
        ) from exc


def _other(raw: Raw | UnsetType) -> Body:
    """Read formats beyond OpenAI's: {type: regex, pattern} and {type: grammar, definition}."""
    text = b"{}" if raw is UNSET else bytes(raw)
    field = "response_format"
    kind = msgspec.json.decode(text, type=_Typed).type
    try:
        match kind:
            case "regex":
                pattern = msgspec.json.decode(text, type=_Pattern).pattern
                return Body(field=f"{field}.pattern", rule=_regex(pattern))
            case "grammar":
                grammar = msgspec.json.decode(text, type=_Grammar)
            case _:
                raise InvalidRequest(
                    f"{field}.type: {kind!r} must be one of text, json_object, json_schema, regex "
                    "and grammar",
                    param=f"{field}.type",
                )
    except msgspec.DecodeError as exc:
        raise InvalidRequest(f"{field}: {exc}", param=field) from exc
    field = f"{field}.definition"
    if "%llguidance" in grammar.definition:
        raise InvalidRequest(
            f"{field}: remove %llguidance; the engine sets the compiler's options", param=field
        )
    if grammar.syntax == "ebnf" and len(grammar.definition) > MAX_GBNF:
        raise InvalidRequest(
            f"{field}: {len(grammar.definition)} characters of GBNF are too many to translate; "
            f"send at most {MAX_GBNF}, or lark",
            param=field,
        )
    return Body(
        field=field,
        rule="@client",
        client=grammar.definition,
        gbnf=grammar.syntax == "ebnf",
    )
