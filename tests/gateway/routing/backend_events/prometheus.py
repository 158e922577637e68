"""The alerting rules, evaluated over scrapes as Prometheus does, as far as the rules need it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from promql_parser import (  # pyright: ignore[reportMissingModuleSource]
    AggregateExpr,
    BinaryExpr,
    Expr,
    NumberLiteral,
    VectorSelector,
    parse,
)

ALERTS = Path(__file__).parents[4] / "docs" / "examples" / "monitoring" / "alerts.yaml"
_SECONDS = {"s": 1, "m": 60, "h": 3600}

Labels = frozenset[tuple[str, str]]


def rule(name: str) -> Mapping[str, Any]:
    """An alerting rule of the documentation."""
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    (found,) = [one for one in group["rules"] if one["alert"] == name]
    return found


def scraped(metrics: str) -> dict[tuple[str, Labels], float]:
    """The samples of a scrape, with the label that Prometheus adds."""
    found: dict[tuple[str, Labels], float] = {}
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? ([^ ]+)$", metrics, re.MULTILINE):
        pairs = re.findall(r'(\w+)="([^"]*)"', labels)
        found[name, frozenset([*pairs, ("instance", "gateway")])] = float(value)
    return found


class Alert:
    """One rule over time: give it each scrape, and read since when it fires."""

    def __init__(self, name: str) -> None:
        self._rule = rule(name)
        self._expr = parse(self._rule["expr"])
        number, unit = re.fullmatch(r"(\d+)([smh])", self._rule.get("for", "0s")).groups()  # type: ignore[union-attr]
        self._for_s = int(number) * _SECONDS[unit]
        self._since: dict[Labels, float] = {}
        self.firing: dict[Labels, float] = {}

    def scrape(self, metrics: str, at: float) -> None:
        """at: in seconds."""
        holds = set(_vector(self._expr, scraped(metrics)))
        self._since = {one: self._since.get(one, at) for one in holds}
        self.firing = {
            one: self.firing.get(one, at)
            for one, since in self._since.items()
            if at - since >= self._for_s
        }


def _vector(expr: Expr, samples: Mapping[tuple[str, Labels], float]) -> Iterator[Labels]:
    """The labels for which a comparison with a number holds, `unless` another vector has them."""
    assert isinstance(expr, BinaryExpr), expr
    if str(expr.op) == "unless":
        assert expr.modifier is not None
        assert expr.modifier.matching is not None
        names = set(expr.modifier.matching.labels)
        others = [_of(one, names) for one in _values(expr.rhs, samples)]
        yield from (one for one in _vector(expr.lhs, samples) if _of(one, names) not in others)
        return
    assert isinstance(expr.rhs, NumberLiteral), expr
    assert str(expr.op) == "==", expr.op
    for labels, value in _values(expr.lhs, samples).items():
        if value == expr.rhs.val:
            yield labels


def _of(labels: Labels, names: set[str]) -> Labels:
    return frozenset(one for one in labels if one[0] in names)


def _values(expr: Expr, samples: Mapping[tuple[str, Labels], float]) -> dict[Labels, float]:
    match expr:
        case VectorSelector():
            return {
                labels: value
                for (name, labels), value in samples.items()
                if name == expr.name and _matches(expr, dict(labels))
            }
        case AggregateExpr():
            assert str(expr.op) == "max", expr.op
            assert expr.modifier is not None
            found: dict[Labels, float] = {}
            for labels, value in _values(expr.expr, samples).items():
                kept = frozenset(one for one in labels if one[0] in expr.modifier.labels)
                found[kept] = max(value, found.get(kept, value))
            return found
        case _:
            raise AssertionError(f"not needed so far: {expr}")


def _matches(selector: VectorSelector, labels: Mapping[str, str]) -> bool:
    for one in selector.matchers.matchers:
        assert str(one.op) == "MatchOp.NotRe", selector
        if re.fullmatch(one.value, labels.get(one.name, "")):
            return False
    return True
