"""The rows of a form that set a key's own limits and budgets: read, and filled from a key."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import CountUsd, OwnBudget, UseModel
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.console.admin.governance.forms import listed
from strowger_gateway.gateway.platform.language import sentence

Kind = Literal["limits", "budgets"]
Input = Literal["amount", "text", "choice"]
_Rule = TypeVar("_Rule", OwnLimit, OwnBudget)

MOST_ROWS: Final = 20
"""As many rules of each kind may a key have."""


class RuleField(Struct, frozen=True, kw_only=True):
    """A field of a row. main: a row without any of these is empty. choices: labels by value."""

    name: str
    label: str
    input: Input = "text"
    main: bool = False
    choices: Mapping[str, str] = {}
    hint: str = ""


_EACH: Final = {"": sentence("the whole key"), "end_user": sentence("each end user")}
_OUTAGE: Final = {"local": sentence("decide alone"), "refuse": sentence("refuse requests")}
_NAME: Final = RuleField(name="name", label=sentence("Name"), hint=sentence("that of the period"))
_MODELS: Final = RuleField(name="models", label=sentence("Models"), hint=sentence("all"))
_HELD: Final = RuleField(name="each", label=sentence("Applies to"), input="choice", choices=_EACH)
LIMIT_FIELDS: Final = (
    RuleField(name="requests", label=sentence("Requests"), input="amount", main=True),
    RuleField(name="tokens", label=sentence("Tokens"), input="amount", main=True),
    RuleField(name="concurrent", label=sentence("At the same time"), input="amount", main=True),
    RuleField(
        name="per",
        label=sentence("Per"),
        input="choice",
        choices={
            "minute": sentence("minute"),
            "hour": sentence("hour"),
            "day": sentence("day"),
        },
    ),
    _NAME,
    _MODELS,
    _HELD,
    RuleField(
        name="exact",
        label=sentence("Exactness"),
        input="choice",
        choices={
            "true": sentence("never exceeded"),
            "false": sentence("workers may exceed it a little"),
        },
    ),
    RuleField(name="wait_s", label=sentence("Wait for room, s"), hint="0"),
    RuleField(name="on_outage", label=sentence("Without Redis"), input="choice", choices=_OUTAGE),
)
BUDGET_FIELDS: Final = (
    RuleField(name="usd", label=sentence("US dollars"), input="amount", main=True),
    RuleField(name="tokens", label=sentence("or tokens"), input="amount", main=True),
    RuleField(
        name="per",
        label=sentence("Per"),
        input="choice",
        choices={
            "month": sentence("month"),
            "week": sentence("week"),
            "day": sentence("day"),
            "total": sentence("in total"),
        },
    ),
    _NAME,
    _MODELS,
    _HELD,
    RuleField(name="time_zone", label=sentence("Time zone"), hint="UTC"),
    RuleField(name="alerts", label=sentence("Alerts at"), hint="0.8, 1"),
    RuleField(
        name="use_model", label=sentence("Then use the model"), hint=sentence("refuse requests")
    ),
    RuleField(
        name="count_usd",
        label=sentence("Without a price, count $"),
        hint=sentence("refuse requests"),
    ),
    RuleField(
        name="on_outage", label=sentence("Without the store"), input="choice", choices=_OUTAGE
    ),
)
FIELDS: Final[Mapping[Kind, Sequence[RuleField]]] = {
    "limits": LIMIT_FIELDS,
    "budgets": BUDGET_FIELDS,
}
_LISTS: Final = frozenset({"models", "alerts"})


class ReadRules(Struct, frozen=True, kw_only=True):
    """limits, budgets: those of the rows that are filled in. places: the row of each.

    errors: by the name of a form's field.
    """

    limits: tuple[OwnLimit, ...] = ()
    budgets: tuple[OwnBudget, ...] = ()
    places: Mapping[Kind, Sequence[int]] = {}
    errors: Mapping[str, str] = {}


def read_rules(sent: Mapping[str, str]) -> ReadRules:
    errors: dict[str, str] = {}
    limits = dict(_read(sent, "limits", OwnLimit, errors))
    budgets = dict(_read(sent, "budgets", OwnBudget, errors))
    return ReadRules(
        limits=tuple(limits.values()),
        budgets=tuple(budgets.values()),
        places={"limits": tuple(limits), "budgets": tuple(budgets)},
        errors=errors,
    )


def rows_in(sent: Mapping[str, str], kind: Kind) -> int:
    """Return how many rows of a kind a form has sent, empty ones included; at most MOST_ROWS."""
    places = (
        int(place)
        for name in sent
        if name.startswith(f"{kind}.") and (place := name.split(".")[1]).isdecimal()
        if len(place) < 3
    )
    return min(max(places, default=-1) + 1, MOST_ROWS)


def filled(kind: Kind, rules: Sequence[OwnLimit | OwnBudget]) -> dict[str, str]:
    """Return the fields of a form that shows these rules."""
    return {
        f"{kind}.{place}.{name}": value
        for place, rule in enumerate(rules)
        for name, value in _texts(rule)
    }


def _read(
    sent: Mapping[str, str], kind: Kind, into: type[_Rule], errors: dict[str, str]
) -> Iterator[tuple[int, _Rule]]:
    for place in range(rows_in(sent, kind)):
        texts = {one.name: sent.get(f"{kind}.{place}.{one.name}", "") for one in FIELDS[kind]}
        if not any(texts[one.name] for one in FIELDS[kind] if one.input != "choice"):
            continue
        try:
            yield place, msgspec.convert(_given(texts), into, strict=False)
        except msgspec.ValidationError as exc:
            message, _, path = str(exc).partition(" - at `$.")
            field = path.rstrip("`").split(".")[-1].split("[")[0] or FIELDS[kind][0].name
            errors[f"{kind}.{place}.{field}"] = plainly(message)


def plainly(message: str) -> str:
    """Return msgspec's message about a text that is not a number as people type one."""
    for kind, wanted in (("int", "a whole number"), ("float", "a number")):
        if message in (f"Expected `{kind}`, got `str`", f"Expected `{kind} | null`, got `str`"):
            return f"expected {wanted}"
    return message


def _given(texts: Mapping[str, str]) -> dict[str, object]:
    """Return what a rule is read from. Numbers may have commas and spaces between digits."""
    given: dict[str, object] = {}
    for name, text in texts.items():
        if not text:
            continue
        if name in _LISTS:
            given[name] = listed(text)
        elif name == "use_model":
            given["on_exceeded"] = {"use_model": text}
        elif name == "count_usd":
            given["unknown_price"] = {"count_usd": text}
        elif name in ("requests", "tokens", "concurrent", "usd"):
            given[name] = text.replace(",", "").replace(" ", "").replace("_", "")
        else:
            given[name] = text
    return given


def _texts(rule: OwnLimit | OwnBudget) -> Iterator[tuple[str, str]]:
    fresh = type(rule)()
    for name in rule.__struct_fields__:
        value: object = getattr(rule, name)
        if name != "per" and value == getattr(fresh, name):
            continue
        match value:
            case UseModel():
                yield "use_model", value.use_model
            case CountUsd():
                yield "count_usd", _number(value.count_usd)
            case tuple():
                numbers = rule.alerts if isinstance(rule, OwnBudget) else ()
                items = rule.models if name == "models" else map(_number, numbers)
                yield name, ", ".join(items)
            case bool():
                yield name, str(value).lower()
            case float():
                yield name, _number(value)
            case _:
                yield name, str(value)


def _number(value: float) -> str:
    """Return the text that reads as this number, exactly."""
    return repr(value).removesuffix(".0")
