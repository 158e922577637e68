"""Translate LiteLLM's rates and budgets to limits and budgets as config.yaml and keys have them."""

import re
from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.cli.litellm_import.database.reading import Row, document
from strowger_gateway.gateway.cli.litellm_import.database.reading import number as column
from strowger_gateway.gateway.cli.litellm_import.ledger import mapping, number
from strowger_gateway.gateway.config.schema.budgets import OwnBudget
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.config.schema.units import MOST_OF_A_LIMIT
from strowger_gateway.gateway.config.yaml_document import Tree

Note = Callable[[str, str, str], None]
"""Lists what is not translated, or not exactly: the field, the reason, the remedy."""

Rule = dict[str, object]
"""A limit or a budget without its `who`, as in config.yaml."""

_DURATION: Final = re.compile(r"(\d+)(s|m|h|d|w|mo)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "mo": 2_592_000}
_WORDS: Final = {"hourly": "1h", "daily": "1d", "weekly": "7d", "monthly": "1mo", "yearly": "365d"}
_DAY, _WEEK, _MONTH = 86_400, 604_800, 31 * 86_400
_LEAST_USD: Final = 1e-9
_MOST_USD: Final = 1e9
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._@:+-]+")


class FoundRules(Struct, frozen=True, kw_only=True):
    """closed: LiteLLM refuses every request, which a limit of 0 means there."""

    limits: tuple[Rule, ...] = ()
    budgets: tuple[Rule, ...] = ()
    closed: str = ""


def rules_of(row: Row, linked: Row, note: Note) -> FoundRules:
    """Translate the rates and budgets of a key, a team or a user.

    linked: the row of BudgetTable that it names; its fields count where the own ones are empty.
    """

    def given(name: str) -> float | None:
        own = column(row, name)
        return column(linked, name) if own is None else own

    metadata = document(row, "metadata")
    rates = {name: given(name) for name in ("rpm_limit", "tpm_limit", "max_parallel_requests")}
    closed = next((name for name, most in rates.items() if most is not None and most < 1), "")
    limits: list[Rule] = []
    minute = _amounts(
        (
            ("requests", rates["rpm_limit"]),
            ("tokens", rates["tpm_limit"]),
            ("concurrent", rates["max_parallel_requests"]),
        )
    )
    if minute:
        limits.append(minute)
    daily = _amounts((("tokens", given("tpd_limit")),))
    if daily:
        limits.append({**daily, "per": "day"})
    limits += _by_model(metadata)
    budgets: list[Rule] = []
    own = row if column(row, "max_budget") is not None else linked
    most, duration = column(own, "max_budget"), own.get("budget_duration")
    if most is not None:
        budget = _budget(most, duration, "max_budget", note)
        soft = column(row, "soft_budget") or column(linked, "soft_budget")
        if soft and most and 0 < soft < most:
            budget["alerts"] = [round(soft / most, 4)]
        elif soft:
            note("soft_budget", "is not below max_budget", "set alerts of the budget")
        budgets.append(budget)
    elif soft := column(row, "soft_budget") or column(linked, "soft_budget"):
        note(
            "soft_budget",
            f"${soft:g} alerts and has no budget",
            "add a budget with alerts, such as 0.8 (docs/budgets.md)",
        )
    budgets += _more_budgets(row, linked, note)
    return FoundRules(
        limits=_possible(limits, OwnLimit, note),
        budgets=_possible(_distinct(budgets), OwnBudget, note),
        closed=closed,
    )


def rule_name(text: str) -> str:
    """Return a name for a limit or budget made of another name."""
    return _NOT_IN_NAMES.sub("-", text).strip("-")[:64] or "model"


def duration_s(value: object) -> int | None:
    """Return the seconds of a duration such as `30d`; `None` if it is none."""
    text = _WORDS.get(str(value), str(value))
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _SECONDS[found[2]]


def _possible(rules: list[Rule], kind: type[Struct], note: Note) -> tuple[Rule, ...]:
    """Return the rules that can be; a model without a name, for example, cannot be asked for."""
    found: list[Rule] = []
    for rule in rules:
        try:
            msgspec.convert(rule, kind)
        except msgspec.ValidationError as exc:
            models = ", ".join(map(repr, cast("list[str]", rule.get("models", []))))[:80]
            what = f"{'limits' if kind is OwnLimit else 'budgets'} of the model {models}"
            note(what, f"cannot be set ({exc})", "nothing, if no request names this model")
        else:
            found.append(rule)
    return tuple(found)


def _amounts(values: tuple[tuple[str, float | None], ...]) -> Rule:
    return {name: min(int(most), MOST_OF_A_LIMIT) for name, most in values if most and most >= 1}


def _by_model(metadata: Mapping[str, Tree]) -> list[Rule]:
    found: dict[str, Rule] = {}
    for theirs, ours in (
        ("model_rpm_limit", "requests"),
        ("model_tpm_limit", "tokens"),
        ("model_max_parallel_requests", "concurrent"),
    ):
        for model, most in mapping(metadata.get(theirs)).items():
            value = number(most)
            if value and value >= 1:
                rule = found.setdefault(model, {"name": rule_name(model), "models": [model]})
                rule[ours] = min(int(value), MOST_OF_A_LIMIT)
    return list(found.values())


def _budget(most: float, duration: object, field: str, note: Note) -> Rule:
    """Translate one amount per duration; one that we have no period for is never exceeded."""
    usd, per = float(most), "total"
    if usd > _MOST_USD:
        note(field, f"more than {_MOST_USD:,.0f} dollars", "nothing: it is that now")
        usd = _MOST_USD
    if usd <= 0:
        usd = _LEAST_USD  # LiteLLM refuses every request that may cost anything
    if duration not in (None, ""):
        period = duration_s(duration)
        if period is None:
            note(field, f"the period {duration!r} is unknown", "it counts for ever; set per")
        else:
            per, length = next(
                ((name, s) for name, s in (("day", _DAY), ("week", _WEEK)) if period <= s),
                ("month", _MONTH),
            )
            if period > length:
                usd = max(_LEAST_USD, round(usd * 2_592_000 / period, 6))
            if str(duration) not in ("24h", "1d", "86400s", "7d", "1w", "168h", "30d", "1mo"):
                note(
                    field,
                    f"budgets have calendar periods, and {duration} is none",
                    f"it is ${usd:g} per {per} now, which is never more; change it if it should be",
                )
    # LiteLLM counts an unknown price as 0.
    return {"usd": usd, "per": per, "unknown_price": {"count_usd": 0}}


def _more_budgets(row: Row, linked: Row, note: Note) -> list[Rule]:
    found: list[Rule] = []
    windows = row.get("budget_limits")
    for window in windows if isinstance(windows, list) else []:  # pyright: ignore[reportUnknownVariableType]
        entry = mapping(window)  # pyright: ignore[reportUnknownArgumentType]
        most = number(entry.get("max_budget"))
        if most is not None:
            duration = entry.get("budget_duration")
            budget = _budget(most, duration, "budget_limits", note)
            note(
                f"budget_limits.{duration}",
                "what was spent is known for max_budget alone, and counts until this period ends",
                "raise it for this period if keys are refused",
            )
            found.append({"name": rule_name(f"window-{duration}"), **budget})
    for model, value in {
        **document(linked, "model_max_budget"),
        **document(row, "model_max_budget"),
    }.items():
        entry = mapping(value)
        most = number(value) if not entry else None
        for key in ("max_budget", "budget_limit"):
            most = number(entry.get(key)) if most is None else most
        if most is None:
            note(f"model_max_budget.{model}", "has no amount", "set a budget with models")
            continue
        note(
            f"model_max_budget.{model}",
            "what was spent per model is not in the database",
            "nothing: it begins at 0 here",
        )
        duration = entry.get("budget_duration", entry.get("time_period"))
        budget = _budget(most, duration, f"model_max_budget.{model}", note)
        found.append({"name": rule_name(model), "models": [model], **budget})
        for rate in ("rpm_limit", "tpm_limit"):
            if entry.get(rate) is not None:
                note(f"model_max_budget.{model}.{rate}", "is part of a budget", "set a limit")
    return found


def _distinct(budgets: list[Rule]) -> list[Rule]:
    """Name those that would have the name of another one."""
    seen: set[str] = set()
    for budget in budgets:
        name = str(budget.get("name", budget["per"]))
        free, count = name, 1
        while free in seen:
            count += 1
            free = f"{name[:60]}-{count}"
        if free != name:
            budget["name"] = free
        seen.add(free)
    return budgets
