"""docs/reference/http-api.md: routes and bodies of the gateway's OpenAPI document."""

import asyncio
import io
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import httpx
import msgspec

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.json_schema.document import OPERATOR_VALUES
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.http.app import build_app
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from strowger_gateway.gateway.parts.part import Part
from tools.config_schema import descriptions

HEAD = Path(__file__).with_name("http_api.md")
SECTIONS = (
    ("/v1/messages", "Anthropic"),
    ("/v1/responses", "OpenAI's Responses"),
    ("/serving-endpoints", "Databricks"),
    ("/api/2.0", "Databricks"),
    ("/api", "Ollama"),
    ("/v1beta", "Google's Gemini"),
    ("/v2", "KServe and TensorRT-LLM"),
    ("/infer_token", "MindIE"),
    ("/v1/models/{model}/infer_token", "MindIE"),
    ("/v1", "OpenAI"),
    ("/admin", "Operator API"),
    ("/", "Health and metrics"),
)
"""Section of the page by the start of a path; the first match wins."""
ORDER = (
    "OpenAI",
    "OpenAI's Responses",
    "Anthropic",
    "Google's Gemini",
    "Databricks",
    "Ollama",
    "MindIE",
    "KServe and TensorRT-LLM",
    "Health and metrics",
    "Operator API",
)
MINIMAL = """
auth: {mode: keys, admin_key: the-key-of-the-operator, keys: [{name: a, key: a-key-of-16-chars}]}
providers: [{name: p, adapter: openai, api_key: k}]
models: [{name: m, backends: [{provider: p, model: m}]}]
"""
"""A gateway with keys: its description has every route."""
_BOUNDS = (
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
)
_KINDS: Mapping[type, str] = {str: "text", int: "integer", float: "number", bool: "boolean"}
_ATTRIBUTES = """
## Attributes of requests

What features record of a request, by name: in `attributes` of the access log, of
`/admin/requests`, of the table `requests` and of its export.

| name | type | meaning |
|---|---|---|
"""
_KEYS = {"client_key": "client key", "admin_key": "operator key", "metrics_key": "metrics key"}

Tree = Mapping[str, object]


def document() -> Tree:
    """Return /openapi.json of a gateway with keys."""
    return asyncio.run(_document())


async def _document() -> Tree:
    with tempfile.TemporaryDirectory() as folder:
        config = read_config(MINIMAL, source="config.yaml", env={})
        runtime = Runtime(config, run_dir=Path(folder))
        app = build_app(Gateway(runtime, AccessLog(io.BytesIO(), "json")))
        transport = httpx.ASGITransport(cast("Callable[..., Awaitable[None]]", app))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.get("/openapi.json")
        await runtime.close()
    return cast(Tree, answer.raise_for_status().json())


def page() -> str:
    """Return the page of the description."""
    return page_of(document())


def page_of(described: Tree) -> str:
    """Return the page of an OpenAPI 3.1 document."""
    sections: dict[str, list[str]] = {name: [] for name in ORDER}
    for path, item in sorted(_tree(described["paths"]).items()):
        for method, operation in _tree(item).items():
            title = next(name for start, name in SECTIONS if path.startswith(start))
            sections[title].append(_route(method, path, _tree(operation)))
    parts = [HEAD.read_text("utf-8")]
    parts += [f"\n## {title}\n{''.join(routes)}" for title, routes in sections.items()]
    types = _tree(_tree(described["components"])["schemas"])
    parts.append("\n## Types\n")
    parts += [_type(name, _tree(types[name])) for name in sorted(types)]
    parts.append(attributes_of(PARTS))
    return "".join(parts)


def attributes_of(parts: Sequence[Part]) -> str:
    """Return a section on the attributes of requests that parts record; "" if none does."""
    rows = [
        f"| `{column.name}` | {_KINDS[column.kind]} | {column.about} |\n"
        for part in parts
        for column in part.columns
    ]
    return "".join((_ATTRIBUTES, *rows)) if rows else ""


def _route(method: str, path: str, operation: Tree) -> str:
    responses = _tree(operation["responses"])
    errors = sorted(status for status in responses if status >= "300")
    rows = [
        ("Key", ", ".join(_keys(operation)) or "none"),
        ("Parameters", "; ".join(_parameters(operation))),
        ("Body", _content(_tree(operation.get("requestBody")))),
        *(
            (f"Answer {status}", _answer(_tree(responses[status])))
            for status in responses
            if status < "300"
        ),
        ("Errors", f"{', '.join(errors)}"),
    ]
    summary = str(operation.get("summary", "")).rstrip(".")
    lines = "".join(f"- {name}: {text}\n" for name, text in rows if text)
    return f"\n### `{method.upper()} {path}`\n\n{summary}.\n\n{lines}"


def _keys(operation: Tree) -> Iterator[str]:
    for entry in cast("Sequence[Tree]", operation.get("security") or ()):
        for name in entry:
            if name in _KEYS:
                yield _KEYS[name]


def _parameters(operation: Tree) -> Iterator[str]:
    for one in cast("Sequence[Tree]", operation.get("parameters") or ()):
        schema = _tree(one.get("schema"))
        required = ", required" if one.get("required") else ""
        about = " ".join(filter(None, (_words(one.get("description")), *_bounds(schema))))
        place = f"`{one['name']}` ({one['in']}, {_kind(schema)}{required})"
        yield f"{place}: {about}" if about else place


def _answer(response: Tree) -> str:
    return _content(response) or "no body"


def _content(message: Tree) -> str:
    """Each media type with its body."""
    content = _tree(message.get("content"))
    kinds = ((media, _kind(_tree(_tree(one).get("schema")))) for media, one in content.items())
    return ", or ".join(
        kind if media == "application/json" else f"`{media}`" for media, kind in kinds
    )


def _type(name: str, schema: Tree) -> str:
    about = _lines(schema.get("description"))
    required = cast("Sequence[str]", schema.get("required") or ())
    known = _request_fields() if name.endswith("Wire") else dict[str, str]()
    rows = [
        f"| `{field}` | {_cell(_kind(_tree(one)))} | {'yes' if field in required else ''} "
        f"| {_cell(_meaning(_tree(one), known.get(field, '')))} |\n"
        for field, one in _tree(schema.get("properties")).items()
    ]
    head = "| field | type | required | meaning |\n|---|---|---|---|\n"
    table = head + "".join(rows) if rows else f"{_kind(schema)}\n"
    return f"\n### `{name}`\n\n{about}{table}"


def _kind(schema: Tree) -> str:
    """Describe a type: `text`, a link to one of the page, `list of number`."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{msgspec.json.encode(schema['const']).decode()}`"
    for several in ("anyOf", "oneOf"):
        if options := cast("Sequence[Tree]", schema.get(several) or ()):
            return " or ".join(dict.fromkeys(_kind(one) for one in options))
    if choices := cast("Sequence[object]", schema.get("enum") or ()):
        return " or ".join(f"`{msgspec.json.encode(choice).decode()}`" for choice in choices)
    kind = schema.get("type")
    if kind == "array":
        items = _tree(schema.get("items"))
        return f"list of {_kind(items)}" if items else "list"
    if kind == "object":
        inside = [
            f"`{name}`: {_kind(_tree(one))}"
            for name, one in _tree(schema.get("properties")).items()
        ]
        values = _tree(schema.get("additionalProperties"))
        if inside:
            return f"object of {', '.join(inside)}"
        return f"object of {_kind(values)} by name" if values else "object"
    if isinstance(kind, str):
        return {"string": "text"}.get(kind, kind)
    if isinstance(kind, Sequence):
        kinds = map(str, cast("Sequence[object]", kind))
        return " or ".join({"string": "text"}.get(one, one) for one in kinds)
    return "any JSON"


def _meaning(schema: Tree, known: str = "") -> str:
    words = _words(schema.get("description")) or known
    return ", ".join(filter(None, (words, *_bounds(schema))))


@cache
def _request_fields() -> Mapping[str, str]:
    """Meanings of request fields by name, as docs/configuration.md has them for the operator."""
    start = f"{OPERATOR_VALUES}."
    return {
        path.removeprefix(start): text
        for path, text in descriptions().items()
        if path.startswith(start)
    }


def _bounds(schema: Tree) -> Iterator[str]:
    for option in cast("Sequence[Tree]", schema.get("anyOf") or ()):
        yield from _bounds(option)
    for key, word in _BOUNDS:
        if (bound := schema.get(key)) is not None:
            yield f"{word} {bound:g}" if isinstance(bound, float) else f"{word} {bound}"
    default = schema.get("default")
    if isinstance(default, str | int | float) and default != "":
        yield f"default `{msgspec.json.encode(default).decode()}`"


def _lines(text: object) -> str:
    """A docstring as paragraphs; lines such as `name: meaning` become a list."""
    blocks = str(text or "").strip().split("\n\n")
    return "".join(f"{_block(block.splitlines())}\n\n" for block in blocks if block)


def _block(lines: Iterable[str]) -> str:
    out: list[str] = []
    for line in (one.strip() for one in lines):
        entry = re.match(r"(?P<names>\w+(?:, \w+)*): +(?P<text>.*)", line)
        if entry:
            names = ", ".join(f"`{name}`" for name in entry["names"].split(", "))
            out.append(f"- {names}: {entry['text']}")
        else:
            out.append(f"  {line}" if out and out[-1].startswith(("- ", "  ")) else line)
    text = "\n".join(out)
    return re.sub(r"(?m)^(?!- |  )(.*)\n- ", r"\1\n\n- ", text)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _words(text: object) -> str:
    return " ".join(str(text or "").split())


def _tree(value: object) -> Tree:
    return cast(Tree, value) if isinstance(value, Mapping) else {}
