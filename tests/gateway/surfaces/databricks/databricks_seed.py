"""Request tables of the Databricks seed: each field with its default and bounds, quoted."""

import os
import re
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[4]
SEED = (
    Path(os.environ.get("STROWGER_SEEDS", ROOT.parent / "shared" / "seeds"))
    / "databricks-foundation-model-api.txt"
)


class Field(Struct, frozen=True, kw_only=True):
    """One row. quote: from the seed, ignoring white space. beside: fields that this one needs."""

    name: str
    quote: str
    default: object
    good: tuple[object, ...] = ()
    bad: tuple[object, ...] = ()
    beside: dict[str, object] = {}

    @property
    def accepted(self) -> tuple[object, ...]:
        return (self.default, *self.good)


NO_LIMIT = "celé číslo větší než nula"
TOOL = {
    "type": "function",
    "function": {
        "name": "my_function",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"enum": [17, 25]}},
            "required": ["a"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
SCHEMA = {
    "name": "answer",
    "description": "An answer.",
    "schema": {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    },
    "strict": True,
}

GENERATION = (
    Field(
        name="max_tokens",
        quote="Maximální počet tokenů pro generate.",
        default=None,
        good=(1, 24),
        bad=(0, -1, 1.5, "5", True),
    ),
    Field(
        name="stream",
        quote="Umožněte streamování odpovědí zpět klientovi",
        default=True,
        good=(False, None),
        bad=("yes", 1),
    ),
    Field(
        name="temperature",
        quote="Plovoucí v [0,2]",
        default=1.0,
        good=(0, 0.5, 2),
        bad=(-0.1, 2.1, "1"),
    ),
    Field(
        name="top_p",
        quote="Float in (0,1]",
        default=1.0,
        good=(0.001, 1, None),
        bad=(0, -0.5, 1.1, "1"),
    ),
    Field(
        name="top_k",
        quote="Definuje počet nejpravděpodobnějších k tokenů pro použití při filtrování top-k.",
        default=None,
        good=(1, 50),
        bad=(0, -1, 1.5),
    ),
    Field(
        name="stop",
        quote="Model přestane generovat další tokeny, když dojde k nějaké sekvenci v stop .",
        default=[],
        good=("a", ["a", "b"], None),
        bad=(5, [5], {"a": 1}),
    ),
    Field(
        name="n",
        quote="Rozhraní API vrátí n nezávislé dokončování chatu při zadání n .",
        default=1,
        good=(2, None),
        bad=(0, -1, 1.5, "2"),
    ),
)
"""What chat and completions have in common."""

CHAT = (
    *GENERATION,
    Field(
        name="tool_choice",
        quote="podporuje různé řetězce klíčových slov, jako jsou auto , required a none .",
        default="none",
        good=(
            "auto",
            "required",
            {"type": "function", "function": {"name": "my_function"}},
        ),
        bad=("maybe", 5, {"type": "function", "function": {"name": "other"}}),
        beside={"tools": [TOOL]},
    ),
    Field(
        name="tools",
        quote="V současné době je function jediným podporovaným typem tool",
        default=None,
        good=([TOOL], []),
        bad=("my_function", {"type": "function"}, [{"type": "function"}]),
    ),
    Field(
        name="response_format",
        quote="Akceptované typy jsou text , json_schema nebo json_object",
        default=None,
        good=(
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": SCHEMA},
        ),
        bad=("json", {}, {"type": "json_schema"}),
    ),
    Field(
        name="logprobs",
        quote="jestli se má poskytnout logaritmická pravděpodobnost výběru tokenu",
        default=False,
        good=(True, None),
        bad=(1, "true"),
    ),
    Field(
        name="top_logprobs",
        quote="Může být 0–20. logprobs musí být true , pokud se používá toto pole.",
        default=None,
        good=(0, 20),
        bad=(-1, 21, 1.5),
        beside={"logprobs": True},
    ),
)

COMPLETIONS = (
    Field(
        name="prompt",
        quote="Řetězec nebo List[Řetězec] | Požadované. Výzvy pro model.",
        default="What is 17 + 25?",
        good=(["What is 17 + 25?"], ["one", "two"]),
        bad=(5, [], [5], [[1, 2]], {"text": "x"}),
    ),
    *GENERATION,
    Field(
        name="error_behavior",
        quote='Jedna z těchto možností: "truncate" (vrácení co nejvíce tokenů) '
        'a "error" (vrácení chyby).',
        default="error",
        good=("truncate", None),
        bad=("ignore", True),
    ),
    Field(
        name="suffix",
        quote="Řetězec, který je připojen na konec každého dokončení.",
        default="",
        good=(" -- the end", None),
        bad=(5, ["x"]),
    ),
    Field(
        name="echo",
        quote="Vrátí výzvu k akci spolu s dokončením.",
        default=False,
        good=(True, None),
        bad=("yes", 1),
    ),
    Field(
        name="use_raw_prompt",
        quote="Pokud true , předejte prompt přímo do modelu bez transformace.",
        default=False,
        good=(True, None),
        bad=("yes", 1),
        beside={"max_tokens": 8},
    ),
)

INSTRUCTION = "Represent this sentence for searching relevant passages:"
EMBEDDINGS = (
    Field(
        name="input",
        quote="Vstupní text, který chcete vložit. Může to být řetězec nebo list řetězců.",
        default="the quick brown fox",
        good=(["the quick brown fox"], ["the", "lazy dog"]),
        bad=(5, [], [5], [[1]], "", [""]),
    ),
    Field(
        name="instruction",
        quote=f'"{INSTRUCTION}"',
        default=None,
        good=(INSTRUCTION,),
        bad=(5, [INSTRUCTION]),
    ),
)

TABLES: dict[str, tuple[Field, ...]] = {
    "chat": CHAT,
    "completions": COMPLETIONS,
    "embeddings": EMBEDDINGS,
}
HELLO = {"role": "user", "content": "What is 17 + 25?"}
BODIES: dict[str, dict[str, object]] = {
    "chat": {"messages": [HELLO]},
    "completions": {"prompt": "What is 17 + 25?"},
    "embeddings": {"input": "the quick brown fox"},
}
"""The smallest body of each table."""


def sent(table: str, field: Field, value: object) -> dict[str, object]:
    return {**BODIES[table], **field.beside, field.name: value}


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)
