"""Random JSON schemas and patterns whose answers have a bounded length."""

from random import Random

JSON = dict[str, object]
LETTERS = 'abcdefgh ö{}"\\/<'


def word(chance: Random, longest: int = 5) -> str:
    return "".join(chance.choice(LETTERS) for _ in range(chance.randint(1, longest)))


def schema(chance: Random, depth: int = 2) -> JSON:
    """An object at the top, as usual for response_format; any schema below."""
    return _object(chance, depth)


def pattern(chance: Random, depth: int = 2) -> str:
    """A regular expression of a finite language, the same in Python and Rust."""
    if depth == 0:
        return chance.choice(["a", "[b-d]", "xy", r"\\.", "[^a-z]", "ö", r"\{", "[0-9]"])
    inner = [pattern(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    match chance.randrange(3):
        case 0:
            return "".join(inner)
        case 1:
            return f"({'|'.join(inner)})"
        case _:
            low = chance.randint(0, 2)
            return f"({inner[0]}){{{low},{low + chance.randint(0, 3)}}}"


def _any(chance: Random, depth: int) -> JSON:
    leaves = [_string, _integer, _number, _enum, _plain]
    makers = [*leaves, _object, _array, _choice] if depth > 0 else leaves
    return chance.choice(makers)(chance, depth - 1)


def _object(chance: Random, depth: int) -> JSON:
    names = list(dict.fromkeys(word(chance) for _ in range(chance.randint(0, 3))))
    return {
        "type": "object",
        "properties": {name: _any(chance, depth) for name in names},
        "required": [name for name in names if chance.random() < 0.6],
        "additionalProperties": False,
    }


def _array(chance: Random, depth: int) -> JSON:
    low = chance.randint(0, 2)
    items = _any(chance, depth)
    return {"type": "array", "items": items, "minItems": low, "maxItems": low + 1}


def _choice(chance: Random, depth: int) -> JSON:
    return {"anyOf": [_any(chance, depth), _any(chance, depth)]}


def _string(chance: Random, depth: int) -> JSON:
    low = chance.randint(0, 3)
    forms: list[JSON] = [
        {"minLength": low, "maxLength": low + chance.randint(0, 4)},
        {"pattern": f"^{pattern(chance, 1)}$"},
        {"format": chance.choice(["date", "ipv4", "uuid"])},
    ]
    return {"type": "string", **chance.choice(forms)}


def _integer(chance: Random, depth: int) -> JSON:
    low = chance.randint(-200, 200)
    high = low + chance.randint(0, 2000)
    if chance.random() < 0.3:
        return {"type": "integer", "exclusiveMinimum": low - 1, "exclusiveMaximum": high + 1}
    return {"type": "integer", "minimum": low, "maximum": high}


def _number(chance: Random, depth: int) -> JSON:
    """Whole tenths, because a schema cannot limit a number's digits."""
    return {"enum": [chance.randint(-50, 50) / 10 for _ in range(3)]}


def _enum(chance: Random, depth: int) -> JSON:
    return {"enum": [word(chance), chance.randint(0, 99), None, [word(chance)], {"a": True}]}


def _plain(chance: Random, depth: int) -> JSON:
    return chance.choice([{"type": "boolean"}, {"type": "null"}, {"const": word(chance)}])
