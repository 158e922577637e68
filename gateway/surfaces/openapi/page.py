"""`/docs`: the API description as one static page, without scripts or external resources."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from markupsafe import Markup

Tree = Mapping[str, object]

POLICY = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Allow only our own style sheet, and no frames of other sites."""

DEEPEST = 6
"""Levels of nested values; deeper ones are named and not shown."""

_GROUPS = (
    ("/admin", "Operator API"),
    ("/serving-endpoints", "Databricks"),
    ("/api/2.0", "Databricks"),
    ("/v2", "KServe and TensorRT-LLM"),
    ("/infer_token", "MindIE"),
    ("/v1/models/{model}/infer_token", "MindIE"),
    ("/v1", "OpenAI"),
    ("/", "Operations"),
)
"""By path prefix; the first match counts."""
_ORDER = (
    *("OpenAI", "Databricks", "KServe and TensorRT-LLM", "MindIE"),
    *("Operations", "Operator API"),
)

_PAGE = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} API</title>
<link rel="stylesheet" href="/docs/page.css">
</head>
<body>
<header><h1>{title} API</h1>
<p>For programs: <a href="/openapi.json">/openapi.json</a></p>
<nav aria-label="Sections">{nav}</nav></header>
<main>{sections}</main>
</body>
</html>
""")
_LINK = Markup('<a href="#{id}">{name}</a> ')
_SECTION = Markup('<section aria-labelledby="{id}"><h2 id="{id}">{name}</h2>{routes}</section>\n')
_ROUTE = Markup("""
<details id="{id}"><summary><span class="method {method}">{method}</span> <code>{path}</code>
<span class="what">{summary}</span></summary>
{key}{parts}</details>
""")
_KEY = Markup("<p>Requires the operator key: <code>Authorization: Bearer KEY</code>.</p>")
_PART = Markup("<h3>{title}</h3>{text}{table}")
_TABLE = Markup(
    '<div class="wide"><table><thead><tr><th>Field</th><th>Type</th><th>Meaning</th></tr></thead>'
    "<tbody>{rows}</tbody></table></div>"
)
_ROW = Markup("<tr><td><code>{name}</code>{required}</td><td>{kind}</td><td>{meaning}</td></tr>\n")
_REQUIRED = Markup(' <span class="required">required</span>')
_PARAGRAPH = Markup("<p>{}</p>")
_MORE = Markup("<details><summary>fields</summary>{}</details>")
_NOTHING = Markup('<p class="quiet">No fields.</p>')


def page_of(document: Tree) -> Markup:
    """document: an OpenAPI 3.1 description with `paths` and `components.schemas`."""
    components = _tree(_tree(document.get("components")).get("schemas"))
    groups: dict[str, list[Markup]] = {name: [] for name in _ORDER}
    for path, methods in _tree(document.get("paths")).items():
        for method, operation in _tree(methods).items():
            groups[_group(path)].append(_route(path, method, _tree(operation), components))
    named = [(_id(name), name, routes) for name, routes in groups.items() if routes]
    return _PAGE.format(
        title=_tree(document.get("info")).get("title", ""),
        nav=Markup().join(_LINK.format(id=id, name=name) for id, name, _ in named),
        sections=Markup().join(
            _SECTION.format(id=id, name=name, routes=Markup().join(routes))
            for id, name, routes in named
        ),
    )


def _group(path: str) -> str:
    return next(name for start, name in _GROUPS if path.startswith(start))


def _route(path: str, method: str, operation: Tree, components: Tree) -> Markup:
    parts: list[Markup] = []
    if parameters := _trees(operation.get("parameters")):
        rows = [_parameter(one, components) for one in parameters]
        parts.append(_part("Path and query", "", _TABLE.format(rows=Markup().join(rows))))
    if body := _json(_tree(operation.get("requestBody"))):
        parts.append(_schema("Request body", body, components))
    answer = _tree(_tree(operation.get("responses")).get("200"))
    if body := _json(answer):
        parts.append(_schema("Response", body, components))
    return _ROUTE.format(
        id=_id(f"{method}{path}"),
        method=method.upper(),
        path=path,
        summary=operation.get("summary", ""),
        key=_KEY if operation.get("security") else Markup(),
        parts=Markup().join(parts) or _NOTHING,
    )


def _parameter(parameter: Tree, components: Tree) -> Markup:
    schema = _tree(parameter.get("schema"))
    return _ROW.format(
        name=parameter.get("name", ""),
        required=_REQUIRED if parameter.get("required") else "",
        kind=_kind(schema, components, ()),
        meaning=_meaning({**schema, "description": parameter.get("description", "")}),
    )


def _schema(title: str, schema: Tree, components: Tree) -> Markup:
    whole, inside = _resolved(schema, components, ())
    text = _words(whole.get("description"))
    table = _fields(whole, components, inside) or _PARAGRAPH.format(
        _kind(whole, components, inside)
    )
    return _part(title, text, table)


def _part(title: str, text: str, table: Markup) -> Markup:
    return _PART.format(title=title, text=_PARAGRAPH.format(text) if text else "", table=table)


def _fields(schema: Tree, components: Tree, inside: tuple[str, ...]) -> Markup:
    """A table of an object's properties; empty if it has none."""
    required = cast("Sequence[str]", schema.get("required") or ())
    rows: list[Markup] = []
    for name, value in _tree(schema.get("properties")).items():
        whole, within = _resolved(_tree(value), components, inside)
        rows.append(
            _ROW.format(
                name=name,
                required=_REQUIRED if name in required else "",
                kind=_kind(_tree(value), components, inside),
                meaning=_meaning(whole) + _inner(whole, components, (*within, name)),
            )
        )
    return _TABLE.format(rows=Markup().join(rows)) if rows else Markup()


def _inner(schema: Tree, components: Tree, inside: tuple[str, ...]) -> Markup:
    """The fields of an object, of a list's items, or of the alternatives that are objects."""
    if len(inside) > DEEPEST:
        return Markup()
    tables: list[Markup] = []
    for one in (schema, _tree(schema.get("items")), *_options(schema)):
        whole, within = _resolved(one, components, inside)
        if table := _fields(whole, components, within):
            tables.append(_MORE.format(table))
    return Markup().join(tables)


def _kind(schema: Tree, components: Tree, inside: tuple[str, ...]) -> str:
    """Describe a type briefly: `text`, `list of number`, `A or null`."""
    whole, within = _resolved(schema, components, inside)
    if options := _options(whole):
        kinds = dict.fromkeys(_kind(one, components, within) for one in options)
        return " or ".join(kinds)
    if choices := cast("Sequence[object]", whole.get("enum") or ()):
        return " or ".join(str(choice) for choice in choices)
    kind = whole.get("type")
    if isinstance(kind, str):
        if kind == "array" and (items := _tree(whole.get("items"))):
            return f"list of {_kind(items, components, within)}"
        return {"string": "text", "array": "list"}.get(kind, kind)
    if isinstance(kind, Sequence):
        return " or ".join(str(one) for one in cast("Sequence[object]", kind))
    return str(whole.get("title") or "anything")


def _meaning(schema: Tree) -> Markup:
    """The description, the bounds and the default."""
    parts = [_words(schema.get("description"))]
    for key, word in (
        ("minimum", "≥"),
        ("exclusiveMinimum", ">"),
        ("maximum", "≤"),
        ("exclusiveMaximum", "<"),
    ):
        if (bound := schema.get(key)) is not None:
            parts.append(f"{word} {bound:g}" if isinstance(bound, float) else f"{word} {bound}")
    default = schema.get("default")
    if isinstance(default, bool):
        default = str(default).lower()
    if isinstance(default, str | int | float) and default != "":
        parts.append(f"default {default}")
    return Markup("<br>").join(filter(None, parts))


def _resolved(
    schema: Tree, components: Tree, inside: tuple[str, ...]
) -> tuple[Tree, tuple[str, ...]]:
    """Resolve a reference; return the names that lead there, too. A circle is not followed."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema, inside
    name = reference.rpartition("/")[2]
    if name in inside:
        return {"title": name}, inside
    return _tree(components.get(name)), (*inside, name)


def _options(schema: Tree) -> list[Tree]:
    return [*_trees(schema.get("anyOf")), *_trees(schema.get("oneOf"))]


def _json(message: Tree) -> Tree:
    """The schema of a JSON body."""
    return _tree(_tree(_tree(message.get("content")).get("application/json")).get("schema"))


def _words(text: object) -> str:
    return " ".join(str(text or "").split())


def _id(text: str) -> str:
    words: Iterable[str] = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    return "-".join(words)


def _tree(value: object) -> Tree:
    return cast(Tree, value) if isinstance(value, Mapping) else {}


def _trees(value: object) -> list[Tree]:
    return [_tree(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


STYLE = """
:root { color-scheme: light dark; --line: #8885; --quiet: #767676; --accent: #0b6b57; }
@media (prefers-color-scheme: dark) { :root { --quiet: #9a9a9a; --accent: #5cc8ad; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; } p { margin: .25rem 0; }
a { color: var(--accent); } code { font: .9em ui-monospace, monospace; }
nav a { margin-right: 1rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
details { padding: .4rem .7rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.method { color: var(--accent); display: inline-block; font-weight: 700; min-width: 3.5rem; }
.what, .quiet, .required { color: var(--quiet); }
.required { font-size: .8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; }
td { vertical-align: top; } td:first-child { white-space: nowrap; } th { color: var(--quiet); }
"""
