"""Functions that the training text offers, with many names, descriptions and schemas."""

import random
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from tools.tiny_chat import function_names as tables
from tools.tiny_chat import topics

Intent = Literal["sum", "weather", "time", "other"]
Schema = dict[str, object]


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function as a client offers it.

    intent:  what it is for; "other" if the model never calls it.
    slots:   the parameters that a call fills, in order: two numbers, one array of numbers
             (`listed`), or a city.
    fixed:   required parameters with one sensible value, and that value.
    """

    name: str
    intent: Intent
    description: str = ""
    parameters: Schema = {}
    slots: tuple[str, ...] = ()
    listed: bool = False
    fixed: tuple[tuple[str, str], ...] = ()


OWN = frozenset(
    [
        "weather",
        "temperature",
        "climate",
        "rain",
        "snow",
        "wind",
        "storm",
        "thunder",
        "lightning",
        "cloud",
        "hot",
        "cold",
        "time",
        "clock",
        "sun",
    ]
)
"""Words of the weather and the time."""

WORDS = tuple(word for word in topics.WORDS.split() if word not in OWN)
"""Words of the corpus that have nothing to do with the three intents."""

_VERBS = tuple(tables.VERBS.split())
_OTHER_KEYS = tuple(tables.OTHER_KEYS.split())


def function_for(rng: random.Random, intent: Intent) -> Function:
    """A function for sums, weather or time."""
    name, described = rng.choice(tables.NAMES[intent]), rng.choice(tables.DESCRIPTIONS[intent])
    dice = rng.random()
    if dice < 0.12:
        described = ""
    elif dice < 0.24:
        name = rng.choice(
            (rng.choice(_VERBS), "f", "call", "tool", "run", "api", "helper", "lookup")
        )
        name += rng.choice(("", " it", " data", " info", " " + str(rng.randint(1, 9))))
    if described and rng.random() < 0.2:
        described = f"{described.rstrip('.')}. {rng.choice(tables.PRAISE)}"
    schemas, slots, listed = _numbers(rng) if intent == "sum" else _city(rng)
    required, fixed = list(slots), ()
    if intent != "sum" and rng.random() < 0.3:
        key, schema = rng.choice(tables.EXTRAS)
        schemas[key] = schema
        if (options := _options(schema)) and rng.random() < 0.25:
            fixed = ((key, options[0]),)
            required.append(key)
    return Function(
        name=cased(rng, name),
        intent=intent,
        description=described,
        parameters=_schema(rng, schemas, required, strict=len(schemas) > len(slots)),
        slots=slots,
        listed=listed,
        fixed=fixed,
    )


def near(rng: random.Random, intent: Intent) -> Function:
    """A function with the parameters of an intent and another purpose."""
    table = tables.NEAR_NUMBERS if intent == "sum" else tables.NEAR_CITY
    name, described = rng.choice(table)
    schemas, slots, _ = _numbers(rng) if intent == "sum" else _city(rng)
    return Function(
        name=cased(rng, name),
        intent="other",
        description=described if rng.random() < 0.9 else "",
        parameters=_schema(rng, schemas, list(slots)),
        slots=slots,
    )


def unrelated(rng: random.Random, word: Callable[[random.Random], str]) -> Function:
    """A function for anything else. word: draws a word."""

    def plain() -> str:
        drawn = rng.choice(WORDS) if rng.random() < 0.6 else word(rng)
        return "thing" if drawn.lower() in OWN else drawn

    verb, x, y, z = rng.choice(_VERBS), plain(), plain(), plain()
    described = rng.choice(tables.PURPOSES).format(V=verb.capitalize(), v=verb, x=x, y=y, z=z)
    name = rng.choice((f"{verb} {x}", f"{verb} {x}", x, f"{x} {y}", f"{verb} {x} {y}"))
    keys: list[str] = rng.sample(_OTHER_KEYS, rng.choice((0, 1, 1, 1, 2, 2, 3)))
    kinds = ("string", "string", "string", "integer", "number", "boolean")
    schemas: dict[str, Schema] = {key: {"type": rng.choice(kinds)} for key in keys}
    return Function(
        name=cased(rng, name),
        intent="other",
        description=described if rng.random() < 0.85 else "",
        parameters=_schema(rng, schemas, keys[: rng.randint(0, len(keys))]),
    )


def cased(rng: random.Random, name: str) -> str:
    """Write a name as programmers do: mostly with underscores, or in camel case, or with dashes."""
    parts = name.split()
    dice = rng.random()
    if dice < 0.72:
        return "_".join(parts)
    if dice < 0.9:
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    return "-".join(parts) if dice < 0.95 else "".join(part.capitalize() for part in parts)


def written(function: Function) -> str:
    """A definition as the chat template writes it, without the tokens around it."""
    required, properties = _read(function.parameters)
    shown = ", ".join(
        f"{key}{'?' if required and key not in required else ''}: {_kind(schema)}"
        for key, schema in properties.items()
    )
    described = f" {function.description}" if function.description else ""
    return f"{function.name}({shown}){described}\n{function.name}"


def tool(function: Function) -> dict[str, object]:
    """The definition in the form that a request and `apply_chat_template` take."""
    inner: dict[str, object] = {"name": function.name, "parameters": function.parameters}
    if function.description:
        inner["description"] = function.description
    return {"type": "function", "function": inner}


def _read(parameters: Schema) -> tuple[Sequence[str], dict[str, Schema]]:
    read = msgspec.convert(parameters, _Parameters)
    return read.required, read.properties


class _Parameters(msgspec.Struct):
    properties: dict[str, Schema] = {}
    required: tuple[str, ...] = ()


def _kind(schema: Schema) -> str:
    return "|".join(_options(schema)) or str(schema["type"])


def _options(schema: Schema) -> list[str]:
    return msgspec.convert(schema.get("enum", []), list[str])


def _numbers(rng: random.Random) -> tuple[dict[str, Schema], tuple[str, ...], bool]:
    kind = rng.choice(("integer", "integer", "number"))
    if rng.random() < 0.12:
        key = rng.choice(tables.NUMBER_LISTS)
        return {key: {"type": "array", "items": {"type": kind}}}, (key,), True
    pair = rng.choice(tables.NUMBER_PAIRS)
    return {key: {"type": kind} for key in pair}, pair, False


def _city(rng: random.Random) -> tuple[dict[str, Schema], tuple[str, ...], bool]:
    key = rng.choice(tables.CITY_KEYS)
    return {key: {"type": "string"}}, (key,), False


def _schema(
    rng: random.Random, properties: dict[str, Schema], required: list[str], *, strict: bool = False
) -> Schema:
    """strict: name the required parameters; otherwise, as in practice, they may be missing."""
    schema: Schema = {"type": "object", "properties": properties}
    if required and (strict or rng.random() < 0.9):
        schema["required"] = required
    return schema
