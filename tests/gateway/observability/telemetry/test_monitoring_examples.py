"""The dashboard and the alerts of docs/examples/monitoring fit what a running gateway measures."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from promql_parser import (  # pyright: ignore[reportMissingModuleSource]
    AggregateExpr,
    BinaryExpr,
    Call,
    Expr,
    MatrixSelector,
    ParenExpr,
    VectorSelector,
    parse,
)

from tests.gateway.commanded import SOON_S
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "docs" / "examples" / "monitoring"
KEY = "key-of-the-operator"
CONFIG = """
store: {{export: {{to: out}}}}
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{{name: web, key: key-of-the-web, team: search}}, {{name: poor, key: key-of-the-poor}}]
teams: [{{name: search}}]
providers:
  - name: here
    adapter: local
    engine: {{threads: 1, models: [{{name: tiny, path: "bundled:tiny-chat"}}]}}
  - {{name: p, adapter: openai, base_url: {url}, api_key: k}}
models:
  - {{name: chat, backends: [{{provider: here, model: tiny}}]}}
  - name: large
    hedge_after_s: 0.02
    policy: in_order
    retry: {{attempts: 2, backoff_s: 0}}
    backends: [{{provider: p, model: slow}}, {{provider: p, model: fast}}]
  - {{name: gone, retry: {{attempts: 1}}, backends: [{{provider: p, model: down}}]}}
  - {{name: unpriced, backends: [{{provider: p, model: free}}]}}
prices: [{{match: "here/*", input: 1, output: 2}}, {{match: "p/slow", input: 1, output: 2}},
  {{match: "p/fast", input: 1, output: 2}}, {{match: "p/down", input: 1, output: 2}}]
budgets:
  - {{name: each-team, who: {{any: true}}, each: team, usd: 1000, models: [chat]}}
  - name: small
    who: {{key: poor}}
    usd: 0.000001
    models: [large]
    on_exceeded: {{use_model: chat}}
  - {{name: none, who: {{key: poor}}, usd: 0.000001, models: [gone]}}
  - {{name: tokens, who: {{any: true}}, tokens: 1000000, models: [chat]}}
limits:
  - {{name: refusing, who: {{any: true}}, requests: 1, models: [unpriced]}}
  - {{name: waiting, who: {{any: true}}, concurrent: 1, models: [large], wait_s: 30}}
  - {{name: counting, who: {{any: true}}, tokens: 1000000, models: [large]}}
"""
ELSEWHERE = {
    "strowger_backend_held": (),
    "strowger_redis_available": (),
    "strowger_gateways_differing": (),
    "strowger_identity_provider_up": (),
    "strowger_tls_certificate_expiry_timestamp_seconds": (),
    "strowger_tls_files_refused": (),
    "strowger_audit_file_available": (),
    "strowger_experiment_split_mismatch": (),
    "strowger_experiment_harm_limit_pauses_total": (),
    "strowger_internal_errors_total": ("where",),
}
"""Metrics that this gateway does not have, or without values, and the labels that are used of them:
they need a held backend, Redis, an identity provider, TLS, an audit.file, experiments or a
defect."""
SCRAPED = {"job", "instance"}
"""Labels that Prometheus adds."""
OF_PROMETHEUS = {"up"}
"""Metrics that it makes itself: https://prometheus.io/docs/concepts/jobs_instances/"""


async def behave(request: Received, answer: Answer) -> None:
    if request.json["model"] == "down":
        await answer.json({"error": {"message": "down"}}, 500)
        return
    if request.json["model"] == "slow":
        await asyncio.sleep(0.3)
    await answer.chat("hello")


@pytest.fixture(scope="module")
async def scrapes(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[tuple[str, str]]:
    """What a gateway measures before requests that do all kinds of things, and after them."""
    operator = {"authorization": f"Bearer {KEY}"}
    config = tmp_path_factory.mktemp("run") / "config.yaml"
    async with (
        provider(behave) as remote,
        forked(config, CONFIG.format(url=remote.base_url)) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as client,
    ):
        await ready(client)
        fresh = (await client.get("/metrics", headers=operator)).text
        for key, model in (
            *[("web", "chat"), ("poor", "large"), ("poor", "gone"), ("web", "gone")],
            *[("web", "unpriced"), ("web", "unpriced")],
        ):
            await ask(client, key, model)
        await asyncio.gather(*(ask(client, "web", "large") for _ in range(2)))
        yield fresh, (await client.get("/metrics", headers=operator)).text


@pytest.fixture(scope="module")
def measured(scrapes: tuple[str, str]) -> str:
    return scrapes[1]


async def ready(client: httpx.AsyncClient) -> None:
    """Wait until the engine is warm."""
    async with asyncio.timeout(SOON_S):
        while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110  another process
            await asyncio.sleep(0.05)


async def ask(client: httpx.AsyncClient, key: str, model: str) -> None:
    """Send a request, whatever comes of it."""
    messages = [{"role": "user", "content": "hi"}]
    body = {"model": model, "messages": messages, "max_tokens": 3, "stream": True}
    headers = {"authorization": f"Bearer key-of-the-{key}"}
    await client.post("/v1/chat/completions", headers=headers, json=body)


def dashboard() -> dict[str, Any]:
    return json.loads((EXAMPLES / "dashboard.json").read_text())


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((EXAMPLES / "alerts.yaml").read_text())["groups"]
    return group["rules"]


def queries() -> Iterator[tuple[str, str]]:
    """Where each query is, and what it is, with Grafana's variables replaced."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], _without_variables(target["expr"])
    for rule in rules():
        yield rule["alert"], rule["expr"]


def _without_variables(text: str) -> str:
    return text.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$model", ".*")


def selectors(expr: Expr) -> Iterator[tuple[str, frozenset[str]]]:
    """The metrics of a query, each with the labels that are used of it."""
    yield from _selectors(expr, frozenset())


def _selectors(expr: Expr, labels: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    match expr:
        case VectorSelector():
            assert expr.name is not None
            yield expr.name, labels | {one.name for one in expr.matchers.matchers}
        case MatrixSelector():
            yield from _selectors(expr.vector_selector, labels)
        case AggregateExpr():
            by = [] if expr.modifier is None else expr.modifier.labels
            yield from _selectors(expr.expr, labels.union(by))
        case BinaryExpr():
            yield from _selectors(expr.lhs, labels)
            yield from _selectors(expr.rhs, labels)
        case ParenExpr():
            yield from _selectors(expr.expr, labels)
        case Call():
            for one in expr.args:
                yield from _selectors(one, labels)
        case _:
            assert type(expr).__name__ in ("NumberLiteral", "StringLiteral"), type(expr)


def samples(text: str) -> Mapping[str, set[str]]:
    """The labels of each sample name in a scrape."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? [^ ]+$", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


async def test_every_query_is_about_metrics_and_labels_that_a_gateway_has(measured: str) -> None:
    known, wrong, elsewhere = samples(measured), list[str](), set[str]()
    for place, query in queries():
        for name, labels in selectors(parse(query)):
            have = SCRAPED if name in OF_PROMETHEUS else known.get(name)
            if have is None and name in ELSEWHERE:
                elsewhere.add(name)
                have = set(ELSEWHERE[name])
            missing = {name} if have is None else labels - have - SCRAPED
            wrong += [f"{place}: {name} has no {one}" for one in sorted(missing)]

    assert wrong == []
    assert elsewhere == set(ELSEWHERE), "the others are not used any more, or have values here"
    docs = (ROOT / "docs" / "operations.md").read_text()
    for name in ELSEWHERE:
        assert name.removeprefix("strowger_") in docs


def test_the_first_event_that_a_counter_counts_is_an_increase(scrapes: tuple[str, str]) -> None:
    """`increase` sees none in a series that begins with 1: it takes two samples.

    https://prometheus.io/docs/practices/instrumentation/#avoid-missing-metrics
    """
    fresh, unseen = samples(scrapes[0]), list[str]()
    for rule in rules():
        for name, span in re.findall(r"increase\((\w+)\[(\w+)\]\) > 0", rule["expr"]):
            begins = f" or {name} > 0 unless {name} offset {span}"
            if name not in fresh and not rule["expr"].endswith(begins):
                unseen.append(rule["alert"])

    assert unseen == []
    assert "strowger_worker_restarts_total" in fresh
    assert "strowger_unpriced_requests_total" not in fresh


async def test_a_query_about_something_else_would_be_noticed(measured: str) -> None:
    known = samples(measured)
    ((name, labels),) = selectors(parse("sum by (colour) (rate(strowger_requests_total[5m]))"))

    assert labels - known[name] == {"colour"}
    assert "strowger_requests" not in known


def test_the_dashboard_has_what_grafana_requires() -> None:
    """https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/"""
    found = dashboard()
    panels = found["panels"]

    assert isinstance(found["schemaVersion"], int)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", found["uid"])
    assert found["title"]
    assert "id" not in found, "Grafana gives it one when it is imported"
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert {"x", "y", "w", "h"} == set(panel["gridPos"])
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        if panel["type"] == "row":
            continue
        assert panel["targets"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        ids = [target["refId"] for target in panel["targets"]]
        assert len(set(ids)) == len(ids)
    taken = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken), "panels overlap"
    variables = {one["name"] for one in found["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(panels)))
    assert used == variables


def test_every_alert_says_how_bad_it_is_and_leads_to_its_heading_in_the_runbook() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    sections = re.split(r"^## ", runbook, flags=re.MULTILINE)[1:]
    names = [rule["alert"] for rule in rules()]

    assert [one.partition("\n")[0] for one in sections] == names
    assert len(set(names)) == len(names)
    for rule, section in zip(rules(), sections, strict=True):
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        severity, notes = rule["labels"]["severity"], rule["annotations"]
        assert severity in ("critical", "warning", "info")
        assert f"*{severity.capitalize()}.* " in section
        assert re.search(r"\nLook at:\n\n- .*\nDo:\n\n- ", section, re.DOTALL), rule["alert"]
        assert notes.keys() == {"summary", "description", "runbook_url"}
        assert notes["runbook_url"].rpartition("/runbook.html#")[2] == rule["alert"].lower()


def test_what_alerts_say_names_only_labels_that_their_expression_leaves() -> None:
    """`sum by (model)` leaves `model`; without an aggregation, all labels are left."""
    for rule in rules():
        said = json.dumps(rule["annotations"])
        used = set(re.findall(r"\$labels\.(\w+)", said))
        groups = re.findall(r"by \(([^)]*)\)", rule["expr"])
        left = {name for group in groups for name in re.findall(r"\w+", group)}
        if groups:
            assert used <= left - {"le"}, rule["alert"]


def test_traffic_cost_limits_budgets_backends_and_the_engine_have_panels() -> None:
    rows = [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "row"]

    assert rows == [
        *("Now", "Traffic and errors", "Latency", "Tokens and cost", "Limits and budgets"),
        *("Backends", "Local engine", "Gateway"),
    ]


async def test_every_metric_of_a_scrape_is_in_the_reference(measured: str) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    known = {
        name: set(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|", page, re.MULTILINE)
    }
    scraped = {
        re.sub(r"_(?:bucket|sum|count)$", "", name) if name not in known else name: labels - {"le"}
        for name, labels in samples(measured).items()
    }

    assert len(scraped) > 40
    assert scraped.keys() <= known.keys()
    assert {name: labels for name, labels in scraped.items() if not labels <= known[name]} == {}
