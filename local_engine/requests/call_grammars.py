"""Write the grammar of tool calls in a model's format, for answers that must be calls.

Arguments that are JSON match the whole schema. Formats without JSON get each argument by itself: a
string is free text, or one of its `enum`; any other value matches its schema.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct

from strowger_gateway.local_engine.answer_formats.formats import (
    JsonBody,
    KeyedBody,
    NamedBody,
    PythonBody,
    TaggedBody,
    ToolFormat,
)
from strowger_gateway.local_engine.answer_formats.typed_values import Schema, kinds_of, resolved
from strowger_gateway.local_engine.guided.compiler import quote

MOST_CALLS = 16
"""Most tool calls in one answer that a grammar writes."""

PROSE = r"/(.|\n)+/"

_encode = msgspec.json.Encoder().encode

Spell = Callable[[str], str]
"""Converts a text with marks of the model to lark."""

JsonRule = Callable[[dict[str, object]], str]
"""Converts a JSON schema to the right side of a rule."""


class GrammarFunction(Struct, frozen=True, kw_only=True):
    """A function for the grammar. rule: the right side of a rule for its arguments as JSON."""

    name: str
    schema: Schema
    rule: str


class CallGrammar:
    """The rules for one format. opening: for text up to and including the mark before calls.

    Rules: `calls`, for an answer that consists of calls, and, where calls have a mark, `opening`
    and `opened`, for what follows the mark.
    """

    def __init__(self, format: ToolFormat, *, spell: Spell, json_rule: JsonRule) -> None:
        self._format = format
        self._spell = spell
        self._json = json_rule
        self._rules: list[str] = []

    def rules(self, functions: Sequence[GrammarFunction], *, parallel: bool) -> list[str]:
        """parallel: up to MOST_CALLS calls, else one."""
        format = self._format
        for place, function in enumerate(functions):
            self._call(f"call_{place}", function)
        calls = " | ".join(f"call_{place}" for place in range(len(functions)))
        self._rules.append(f"call: {calls}")
        listed = isinstance(format.bodies[0], JsonBody | PythonBody) and format.bodies[0].listed
        between = quote(format.between or ", ") if listed or format.between else ""

        def several(one: str) -> str:
            more = f"{between} {one}" if between else one
            return f"{one} ({more}){{0,{MOST_CALLS - 1}}}" if parallel else one

        if format.section or listed or format.bare:
            inside = several("call")
            inside = f'"[" {inside} "]"' if listed else inside
        else:
            inside = "call"
        opened = " ".join(
            [self._text(format.lead), inside, self._text(format.tail), self._text(format.close)]
        )
        if format.bare or not format.open:
            self._rules.append(f"calls: {inside}")
            return self._rules
        self._rules.append(f"opened: {opened}")
        self._rules.append(self._until("opening", format.open))
        once = f"{self._text(format.open)} opened"
        whole = once if format.section or listed else several(once)
        self._rules.append(f"calls: {whole}")
        return self._rules

    def _text(self, text: str) -> str:
        return self._spell(text) if text else ""

    def _until(self, name: str, mark: str) -> str:
        """Return a rule for free text up to and including a mark."""
        spelled = self._text(mark)
        before, token, after = spelled.partition("<[")
        if token and before:
            ending = "".join(rf"\x{{{ord(one):x}}}" for one in json.loads(before))
            return rf"{name}: /(.|\n)*{ending}/ <[{after}"
        if token:
            return f"{name}: PROSE? {spelled}"
        return rf"{name}[lazy]: /(.|\n)*/ {quote(mark)}"

    def _call(self, name: str, function: GrammarFunction) -> None:
        before, after = self._format.wrap
        inside = self._body(name, function)
        self._rules.append(f"{name}: {self._text(before)} {inside} {self._text(after)}")

    def _body(self, rule: str, function: GrammarFunction) -> str:
        match self._format.bodies[0]:
            case JsonBody() as body:
                quoted = _encode(function.name).decode()
                head = f'{{"{body.name}": {quoted}, "{body.arguments}": '
                head = f"{{{quoted}: " if body.keyed else head
                return f'{quote(head)} {self._arguments(rule, function)} "}}"'
            case NamedBody() as body:
                named = f"{quote(f'functions.{function.name}:')} /[0-9]{{1,3}}/"
                name = named if body.kimi else quote(function.name)
                parts = [self._text(body.begin), name, self._text(body.separator)]
                return " ".join([*parts, self._arguments(rule, function), self._text(body.end)])
            case TaggedBody() as body:
                return self._tagged(rule, body, function)
            case PythonBody():
                values = self._listed(rule, function, "=", lambda part, _: self._json(part))
                return f'{quote(function.name + "(")} {values} ")"'
            case KeyedBody() as body:
                values = self._listed(rule, function, ":", self._keyed(body))
                return f'{quote(f"call:{function.name}{{")} {values} "}}"'

    def _arguments(self, rule: str, function: GrammarFunction) -> str:
        self._rules.append(f"{rule}_args: {function.rule}")
        return f"{rule}_args"

    def _tagged(self, rule: str, body: TaggedBody, function: GrammarFunction) -> str:
        before, after = body.call
        parts = [self._text(before), quote(function.name), self._text(after)]
        if after.strip():
            parts.append(self._text(body.after))
        for place, (key, part, needed) in enumerate(_properties(function.schema)):
            name = f"{rule}_{place}"
            texts = [self._text(body.key[0]), quote(key), self._text(body.key[1])]
            choices = _choices(part)
            string = _is_text(part, function.schema)
            texts.append(self._text(body.text if string or choices else body.json))
            texts.append(self._text(body.value[0] + body.pad))
            close = body.pad + body.value[1]
            if choices:
                texts += [choices, self._text(close)]
            elif string:
                self._rules.append(self._until(f"{name}_text", close))
                texts.append(f"{name}_text")
            else:
                texts += [self._json(dict(part)), self._text(close)]
            texts.append(self._text(body.after))
            self._rules.append(f"{name}: {' '.join(texts)}")
            parts.append(name if needed else f"{name}?")
        return " ".join([*parts, self._text(body.end)])

    def _keyed(self, body: KeyedBody) -> Callable[[dict[str, object], str], str]:
        def value(part: dict[str, object], name: str) -> str:
            mark = self._text(body.quote)
            if choices := _choices(part):
                return f"{mark} {choices} {mark}"
            if kinds_of(part, part) != ["string"]:
                return self._json(part)
            self._rules.append(self._until(f"{name}_text", body.quote))
            return f"{mark} {name}_text"

        return value

    def _listed(
        self,
        rule: str,
        function: GrammarFunction,
        sign: str,
        value: Callable[[dict[str, object], str], str],
    ) -> str:
        """Return a rule for arguments between commas, of which some may be absent."""
        found = _properties(function.schema)
        comma = '", "' if sign == "=" else '","'
        first, rest = '""', '""'
        for place in range(len(found) - 1, -1, -1):
            key, part, needed = found[place]
            name = f"{rule}_{place}"
            self._rules.append(f"{name}: {quote(key + sign)} {value(dict(part), name)}")
            self._rules.append(f"{name}_rest: {rest}")
            begins = f"{name} {name}_rest"
            self._rules.append(f"{name}_first: {begins if needed else f'{begins} | {first}'}")
            first = f"{name}_first"
            more = f"{comma} {name}"
            rest = f"{more if needed else f'({more})?'} {name}_rest"
        return first


def _properties(schema: Schema) -> list[tuple[str, Schema, bool]]:
    """Return each argument's name, its schema with what it refers to, and whether it is needed."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = schema.get("required")
    needed = set(cast(list[str], required)) if isinstance(required, list) else set[str]()
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return [
        (name, {**shared, **(resolved(part, schema) or {})}, name in needed)
        for name, part in cast(Mapping[str, object], properties).items()
    ]


def _choices(part: Schema) -> str:
    """Return the alternatives of an argument that has a fixed list of strings; "" for others."""
    values = part.get("enum", [part["const"]] if "const" in part else None)
    if not isinstance(values, list) or not values:
        return ""
    texts = cast(list[object], values)
    if not all(isinstance(text, str) for text in texts):
        return ""
    return f"({' | '.join(quote(str(text)) for text in texts)})"


def _is_text(part: Schema, root: Schema) -> bool:
    kinds = kinds_of(part, root)
    return not kinds or "string" in kinds
