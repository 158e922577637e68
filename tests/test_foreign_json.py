"""JSON from outside becomes objects of its own making in one place, which measures it first.

A typed decoder makes what its type has, and skips the rest; a decoder without a type, or of objects
with any values, makes whatever the sender wants. The others are listed here, with the reason why
what they read is measured, small, or not from outside.
"""

import ast
from collections.abc import Iterator

from tests.imports import PACKAGES, ROOT

MEASURED = "schemas/measured_json.py"

OTHERS = {
    "adapters/conformance/json_paths.py": "recordings of the project",
    "adapters/conformance/openai_field_names.py": "recordings of the project",
    "adapters/conformance/recording_checks.py": "recordings of the project",
    "adapters/conformance/usage_checks.py": "recordings of the project",
    "adapters/form_repairs/strict_schemas.py": "a part of a measured request",
    "adapters/model_limits/thinking.py": "a part of a measured request",
    "adapters/openai_responses/container_items.py": "a part of a measured request",
    "adapters/openai_responses/decode.py": "what this adapter has encoded",
    "adapters/repairs/rewriting.py": "a part of a measured request",
    "adapters/tool_repairs/tool_schemas.py": "a part of a measured request",
    "adapters/unencodable.py": "a part of a measured request",
    "gateway/audit/chain.py": "the gateway's own audit log",
    "gateway/content/cache/key.py": "a measured request",
    "gateway/cli/agents/documents/json_text.py": "a scalar of a file of the user's: at most 8 MiB",
    "gateway/config/json_schema/document.py": "the defaults of the configuration",
    "gateway/console/explain/claimed_caller.py": "an argument of the operator",
    "gateway/content/hooks/answer_texts.py": "a part of a measured answer or event",
    "gateway/content/hooks/log_probabilities.py": "a part of a measured answer or event",
    "gateway/governance/identities/compact_token.py": "a header: at most 64 KiB",
    "gateway/governance/identities/key_set.py": (
        "at most 512 KiB of the operator's identity provider"
    ),
    "gateway/routing/planning/request_facts.py": "a part of a measured request",
    "gateway/storage/sql/key_rows.py": "the gateway's own rows",
    "gateway/storage/sql/request_queries.py": "the gateway's own rows",
    "gateway/surfaces/kserve/tensors.py": "a part of a measured request",
    "local_engine/answer_formats/calls.py": "text of the engine's own model",
    "local_engine/answer_formats/json_calls.py": "text of the engine's own model",
    "local_engine/answer_formats/typed_values.py": "text of the engine's own model",
    "local_engine/loading/weight_files.py": "a file of the operator's model",
    "local_engine/requests/call_grammars.py": "a text that the engine has encoded",
    "local_engine/requests/response_constraints.py": "a schema: at most 1,000,000 characters",
    "local_engine/text/chat_template.py": "schemas of tools: at most 1,000,000 characters",
    "local_engine/text/control_tokens.py": "a file of the operator's model",
    "local_engine/text/template_values.py": "arguments of a call: at most 1,000,000 characters",
    "schemas/unknown_fields.py": "a part of a measured request",
}

_UNTYPED = {"object", "Any", "dict[str, object]", "dict[str, Any]", "list[object]", "list[Any]"}


_MADE = ("loads", "load", "Decoder", "decode")
"""Attributes of `json` and `msgspec.json`."""


def untyped_decoders(source: str) -> Iterator[int]:
    """Yield the lines that make objects of whatever kind JSON has."""
    if not any(f"json.{name}" in source for name in _MADE):
        return  # most files, which are then not parsed
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not (
            isinstance(node.func, ast.Attribute) and node.func.attr in _MADE
        ):
            continue
        name = ast.unparse(node.func)
        if name in ("json.loads", "json.load"):
            yield node.lineno
        elif name == "msgspec.json.Decoder" and not any(
            word.arg == "type" for word in node.keywords
        ):
            if not node.args or ast.unparse(node.args[0]) in _UNTYPED:
                yield node.lineno
        elif name == "msgspec.json.decode":
            types = [ast.unparse(word.value) for word in node.keywords if word.arg == "type"]
            if not types or types[0] in _UNTYPED:
                yield node.lineno


def test_nothing_from_outside_is_decoded_to_any_objects_before_it_is_measured() -> None:
    found: dict[str, list[int]] = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            lines = list(untyped_decoders(file.read_text()))
            if lines:
                found[str(file.relative_to(ROOT))] = lines
    assert MEASURED in found
    new = {file: lines for file, lines in found.items() if file not in OTHERS}
    del new[MEASURED]

    assert new == {}, "use strowger_gateway.schemas.measured_json, or list the file with the reason"
    assert OTHERS.keys() - found.keys() == set(), "delete these from OTHERS"


def test_what_is_looked_for() -> None:
    source = """
import json, msgspec
a = json.loads(x)
b = msgspec.json.decode(x)
c = msgspec.json.decode(x, type=dict[str, object])
d = msgspec.json.Decoder().decode
e = msgspec.json.Decoder(object)
f = msgspec.json.decode(x, type=Typed)
g = msgspec.json.Decoder(dict[str, Raw]).decode
"""
    assert sorted(untyped_decoders(source)) == [3, 4, 5, 6, 7]
