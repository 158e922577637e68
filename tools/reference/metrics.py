"""docs/reference/metrics.md: every metric that the code defines."""

import ast
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from msgspec import Struct

ROOT = Path(__file__).parents[2]
HEAD = Path(__file__).with_name("metrics.md")
KINDS = {
    "Counter": "counter",
    "FastCounter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "FastHistogram": "histogram",
    "Histogram": "histogram",
    "HistogramMetricFamily": "histogram",
}
SECTIONS = {
    "gateway/observability/telemetry/metrics.py": "Requests",
    "gateway/platform/eventloop": "Requests",
    "gateway/routing/backend_events": "Requests",
    "gateway/routing/health_checks": "Requests",
    "gateway/observability/telemetry/mirror_metrics.py": "Mirrored copies",
    "gateway/observability/telemetry/engine_metrics.py": "Local engines",
    "gateway/observability/telemetry/picker_metrics.py": "Local engines, for endpoint pickers",
    "gateway/observability/telemetry/experiment_metrics.py": "Experiments",
    "gateway/experiments": "Experiments",
    "gateway/governance/limits": "Limits",
    "gateway/governance/end_users": "Limits",
    "gateway/governance/budgets": "Budgets",
    "gateway/content/hooks": "Guardrails",
    "gateway/content/cache": "Response cache",
    "gateway/governance/issued_keys": "Keys and identity providers",
    "gateway/governance/identities": "Keys and identity providers",
    "gateway/observability/recording": "Records, audit log and store",
    "gateway/content/stored_responses": "Records, audit log and store",
    "gateway/observability/payloads": "Export of traces, metrics and payloads",
    "gateway/observability/otlp": "Export of traces, metrics and payloads",
    "gateway/coordination": "Gateways",
    "gateway/backends/discovery": "Discovery",
    "gateway/backends/gauges": "Discovery",
    "gateway/backends/placement": "Placement (`strowger placement`)",
    "gateway/server/tls": "TLS",
    "gateway/assembly/client_connections.py": "Processes",
    "gateway/observability/telemetry": "Processes",
    "gateway/": "Further features",
}
"""Section of the page by the start of a file's path; the first match wins."""
EXPORTED = ("spans", "data_points")
"""What gateway/observability/otlp/counts.py counts, one object each: `ExportCounts(items)`."""

_PREFIXES = ("strowger_", "process_", "vllm:")


class Metric(Struct, frozen=True, kw_only=True):
    """name: as scraped, with `_total` for counters."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str
    section: str


def metrics() -> list[Metric]:
    """Return all metrics of the gateway by section and name."""
    order = list(dict.fromkeys(SECTIONS.values()))
    found = {one.name: one for file in _files() for one in _defined(file)}
    return sorted(found.values(), key=lambda one: (order.index(one.section), one.name))


def page() -> str:
    """Return the page: a table per section."""
    parts = [HEAD.read_text("utf-8")]
    sections: dict[str, list[Metric]] = {}
    for one in metrics():
        sections.setdefault(one.section, []).append(one)
    for title, rows in sections.items():
        parts.append(f"\n## {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
        for one in rows:
            labels = ", ".join(f"`{label}`" for label in one.labels)
            parts.append(f"| `{one.name}` | {one.kind} | {labels} | {one.meaning} |\n")
    return "".join(parts)


def _files() -> Iterator[Path]:
    for file in sorted((ROOT / "gateway").rglob("*.py")):
        if re.search(rf'"(?:{"|".join(_PREFIXES)})(?!gateway\.)', file.read_text("utf-8")):
            yield file


def _defined(file: Path) -> Iterator[Metric]:
    """Evaluate the arguments of each call that defines a metric, for each turn of loops around."""
    place = file.relative_to(ROOT).as_posix()
    name = f"strowger_gateway/{place.removesuffix('.py')}".replace("/", ".")
    module = importlib.import_module(name)
    for call, around in _calls(ast.parse(file.read_text("utf-8")), ()):
        for names in _environments(around, vars(module)):
            name, meaning, labels = _arguments(call, names)
            if not name.startswith(_PREFIXES):
                continue
            kind = KINDS[ast.unparse(call.func)]
            total = "_total" if kind == "counter" and not name.endswith("_total") else ""
            yield Metric(
                name=name + total,
                kind=kind,
                labels=tuple(labels),
                meaning=meaning.replace("|", r"\|"),
                section=next(title for start, title in SECTIONS.items() if place.startswith(start)),
            )


def _calls(
    node: ast.AST, around: tuple[ast.AST, ...]
) -> Iterator[tuple[ast.Call, tuple[ast.AST, ...]]]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) in KINDS and len(node.args) > 1:
        yield node, around
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, (*around, node))


def _environments(
    around: tuple[ast.AST, ...], module: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    """Yield the names that a call sees: constants of its module and function, loop variables."""
    known: list[dict[str, object]] = [
        {**module, "self": SimpleNamespace(_items=items)} for items in EXPORTED
    ]
    for node in around:
        if isinstance(node, ast.FunctionDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Tuple | ast.List):
                    for names in known:
                        names |= _bound(line.targets[0], _texts(line.value))
        for loop in node.generators if isinstance(node, ast.ListComp) else (node,):
            if isinstance(loop, ast.For | ast.comprehension):
                known = [
                    {**names, **_bound(loop.target, turn)}
                    for names in known
                    for turn in _turns(loop.iter, names) or [()]
                ]
    yield from known


def _turns(loop: ast.expr, names: Mapping[str, object]) -> list[object]:
    """Of loops over constants; other loops do not decide about a metric's name."""
    if isinstance(loop, ast.Tuple):
        return [_texts(turn) for turn in loop.elts]
    found = names.get(ast.unparse(loop))
    return list(cast("tuple[object, ...]", found)) if isinstance(found, tuple) else []


def _texts(node: ast.expr) -> object:
    """A constant, or a tuple of constants; anything else is its source."""
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_texts(one) for one in node.elts)
    return node.value if isinstance(node, ast.Constant) else ast.unparse(node)


def _bound(target: ast.expr, value: object) -> dict[str, object]:
    if isinstance(target, ast.Tuple):
        found = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
        return {ast.unparse(name): one for name, one in zip(target.elts, found, strict=False)}
    return {ast.unparse(target): value}


def _arguments(call: ast.Call, names: dict[str, object]) -> tuple[str, str, tuple[str, ...]]:
    given = {word.arg: word.value for word in call.keywords}
    labels = given.get("labels") or given.get("labelnames")
    if labels is None and len(call.args) > 2:
        labels = call.args[2]
    found = () if labels is None else cast("Iterable[object]", _value(labels, names))
    name, meaning = (str(_value(one, names)) for one in call.args[:2])
    return name, meaning, tuple(map(str, found))


def _value(node: ast.expr, names: dict[str, object]) -> object:
    """Evaluate an expression of this repository's own code."""
    return eval(ast.unparse(node), {}, names)
