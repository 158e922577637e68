"""What Google refuses in a request for generateContent, on AI Studio and on Vertex AI."""

import re
from collections.abc import Iterator
from typing import Final

from tests.oracle.checks.json_schemas import parts as schemas
from tests.oracle.reading import Faults, Json, entries, inner, objects, outside, repeated, text
from tests.oracle.sent import Sent

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_DATA: Final = frozenset(
    {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)


def turns_of(body: Json) -> list[tuple[str, str, list[Json]]]:
    """Return path, role and parts of each turn; a role that is missing is the user's."""
    return [
        (f"contents.{place}", text(one.get("role")) or "user", objects(one.get("parts")))
        for place, one in enumerate(objects(body.get("contents")))
    ]


def declared(body: Json) -> Iterator[tuple[str, Json]]:
    for place, tool in enumerate(objects(body.get("tools"))):
        for index, one in enumerate(objects(tool.get("functionDeclarations"))):
            yield f"tools.{place}.functionDeclarations.{index}", one


def there_are_contents(sent: Sent) -> Faults:
    if not turns_of(sent.body):
        yield "contents", "is empty"


def roles_are_user_and_model(sent: Sent) -> Faults:
    for at, role, _ in turns_of(sent.body):
        if role not in ("user", "model", "function"):
            yield f"{at}.role", f"is {role!r}"


def parts_have_data(sent: Sent) -> Faults:
    found = [(at, parts) for at, _, parts in turns_of(sent.body)]
    if "systemInstruction" in sent.body:
        system = inner(sent.body, "systemInstruction")
        found.append(("systemInstruction", objects(system.get("parts"))))
    for at, parts in found:
        if not parts:
            yield f"{at}.parts", "is empty"
        for place, part in enumerate(parts):
            data = part.keys() & _DATA
            if len(data) != 1 or part.get("text") == "":
                yield f"{at}.parts.{place}", f"has no data, or too much: {sorted(part)}"


def calls_follow_the_user(sent: Sent) -> Faults:
    before = ""
    for at, role, parts in turns_of(sent.body):
        if role == "model" and any("functionCall" in one for one in parts) and before != "user":
            yield at, f"has calls, after {before or 'nothing'}"
        before = "user" if role == "function" else role


def results_are_as_many_as_calls(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    for place, (at, role, parts) in enumerate(turns):
        calls = [one for one in parts if "functionCall" in one]
        if role != "model" or not calls:
            continue
        following = turns[place + 1][2] if place + 1 < len(turns) else []
        results = [one for one in following if "functionResponse" in one]
        if len(results) != len(calls):
            yield at, f"has {len(calls)} calls and {len(results)} results in the next turn"


def results_follow_calls(sent: Sent) -> Faults:
    called = 0
    for at, role, parts in turns_of(sent.body):
        results = sum("functionResponse" in one for one in parts)
        if results and not called:
            yield at, "has results, and the turn before it no calls"
        called = sum("functionCall" in one for one in parts) if role == "model" else 0


def function_names_have_an_alphabet(sent: Sent) -> Faults:
    found = [(at, one) for at, one in declared(sent.body)]
    for at, _, parts in turns_of(sent.body):
        for place, part in enumerate(parts):
            found += [
                (f"{at}.parts.{place}.{name}", inner(part, name))
                for name in ("functionCall", "functionResponse")
                if name in part
            ]
    for at, one in found:
        if not _NAME.fullmatch(text(one.get("name"))):
            yield f"{at}.name", f"is {one.get('name')!r}"


def function_names_are_unique(sent: Sent) -> Faults:
    found = list(declared(sent.body))
    for place in repeated([text(one.get("name")) for _, one in found]):
        yield f"{found[place][0]}.name", f"is a second {found[place][1].get('name')!r}"


def calls_have_their_signature(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    asked = [
        place
        for place, (_, role, parts) in enumerate(turns)
        if role == "user" and not any("functionResponse" in one for one in parts)
    ]
    for at, role, parts in turns[asked[-1] if asked else 0 :]:
        calls = [(place, one) for place, one in enumerate(parts) if "functionCall" in one]
        if role == "model" and calls and not calls[0][1].get("thoughtSignature"):
            yield (
                f"{at}.parts.{calls[0][0]}.thoughtSignature",
                "is missing on the turn's first call",
            )


def parameters_use_what_a_schema_has(sent: Sent) -> Faults:
    for at, one in declared(sent.body):
        for path, schema in schemas(one.get("parameters"), f"{at}.parameters"):
            for name in ("$ref", "$schema", "$defs", "additionalProperties"):
                if name in schema:
                    yield f"{path}.{name}", "is of JSON schema: that is parametersJsonSchema"
        if "parameters" in one and "parametersJsonSchema" in one:
            yield at, "has two kinds of parameters"


def arrays_have_items(sent: Sent) -> Faults:
    for at, one in declared(sent.body):
        for path, schema in schemas(one.get("parameters"), f"{at}.parameters"):
            if text(schema.get("type")).lower() == "array" and "items" not in schema:
                yield f"{path}.items", "is missing"


def schemas_name_values_of_strings(sent: Sent) -> Faults:
    for at, one in declared(sent.body):
        for path, schema in schemas(one.get("parameters"), f"{at}.parameters"):
            if "" in entries(schema.get("enum")):
                yield f"{path}.enum", "has an empty string"


def settings_are_in_range(sent: Sent) -> Faults:
    config = inner(sent.body, "generationConfig")
    yield from outside(config, "temperature", 0, 2)
    yield from outside(config, "topP", 0, 1)
    yield from outside(config, "candidateCount", 1, 8)
    yield from outside(config, "logprobs", 0, 20)
    stops = entries(config.get("stopSequences"))
    if len(stops) > 5:
        yield "generationConfig.stopSequences", f"has {len(stops)} strings"
    if config.get("logprobs") is not None and config.get("responseLogprobs") is not True:
        yield "generationConfig.logprobs", "is given without responseLogprobs"


def a_schema_needs_json(sent: Sent) -> Faults:
    config = inner(sent.body, "generationConfig")
    given = any(config.get(name) is not None for name in ("responseSchema", "responseJsonSchema"))
    if given and config.get("responseMimeType") not in ("application/json", "text/x.enum"):
        yield "generationConfig.responseMimeType", "is not application/json, with a schema"


def allowed_names_are_declared(sent: Sent) -> Faults:
    config = inner(sent.body, "toolConfig", "functionCallingConfig")
    names = entries(config.get("allowedFunctionNames"))
    known = [one.get("name") for _, one in declared(sent.body)]
    if names:
        if config.get("mode") not in ("ANY", "VALIDATED"):
            yield "toolConfig.functionCallingConfig.allowedFunctionNames", "is given without ANY"
        if not all(one in known for one in names):
            yield "toolConfig.functionCallingConfig.allowedFunctionNames", f"has unknown {names}"
