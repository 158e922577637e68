"""Generate docs/parameters.md from the adapters' capabilities."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from strowger_gateway.adapters.base import ALL_THOUGHTS, Endpoint, Range, Supports
from strowger_gateway.adapters.capabilities import TOOL_PROPERTIES, describe_range, offered, sent_as
from strowger_gateway.adapters.client_fields.denied import NAMES, VLLMS_OWN
from strowger_gateway.adapters.client_fields.denied import VENDORS as VENDORS_WITHHELD
from strowger_gateway.adapters.openai.vendor_profiles import VENDORS
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.cli.known_models.command import ANYWHERE, supported
from strowger_gateway.gateway.config.adapter_names import LOCAL
from strowger_gateway.schemas.fields import FIELDS, MESSAGES, REASONING, SAMPLING, TASK_TYPES, Task
from tests.parameters.repairs import repairs
from tests.parameters.words import HEAD, TAIL, TITLES

REGISTRY = Registry(())
ROWS = frozenset(vendor.name for vendor in VENDORS)
COMPATIBLE = "any other server"
DIALECT = (
    "openai",
    "azure",
    COMPATIBLE,
    "databricks",
    "mistral",
    "mindie",
    "vllm",
    "sglang",
    "tgi",
)
RESPONSES = (
    "openai-responses",
    "azure-responses",
    "openrouter-responses",
    "vllm-responses",
    "lm-studio-responses",
    "ollama-responses",
)
OTHERS = (
    *(name for name in REGISTRY.names if name not in {*DIALECT, *RESPONSES, *ROWS}),
    LOCAL,
)
CHAT_ALONE = ("mindie", "tgi")
"""Adapters that use the dialect for chat only, and their own formats otherwise."""

GROUPS: Mapping[Task, Mapping[str, Sequence[str]]] = {
    "chat": {
        "OpenAI's dialect": DIALECT,
        "OpenAI's Responses API": RESPONSES,
        "Formats of their own": OTHERS,
    },
    "completion": {
        "OpenAI's dialect": tuple(name for name in DIALECT if name not in CHAT_ALONE),
        "Formats of their own": (*CHAT_ALONE, *OTHERS),
    },
    "embeddings": {"OpenAI's dialect": DIALECT, "Formats of their own": OTHERS},
    "tokens": {"": (*DIALECT, *RESPONSES, *OTHERS)},
    **{kind.task: {"": (COMPATIBLE, *REGISTRY.names)} for kind in TASK_TYPES},
}
"""Columns by heading. The catalogue's adapters have a separate table."""


class Column(Struct, frozen=True, kw_only=True):
    name: str
    supports: Supports


def page() -> str:
    tables = [
        _task(task) for task in FIELDS if _columns(task, (COMPATIBLE, *REGISTRY.names, LOCAL))
    ]
    return "\n".join([HEAD, *tables, _catalogue(), _own_fields(), _withheld(), _repairs(), TAIL])


def _repairs() -> str:
    return repairs((COMPATIBLE, *REGISTRY.names), supports_of)


def supports_of(name: str) -> Supports:
    if name == COMPATIBLE:
        return REGISTRY.build("openai", Endpoint(name=name, base_url=ANYWHERE)).supports
    return supported(REGISTRY, name)


def _task(task: Task) -> str:
    return "\n".join(
        [
            f"## {TITLES[task]}\n",
            *(
                _table(title, task, columns)
                for title, names in GROUPS[task].items()
                if (columns := _columns(task, names))
            ),
        ]
    )


def _columns(task: Task, names: Sequence[str]) -> list[Column]:
    found = [Column(name=name, supports=supports_of(name)) for name in names]
    return [one for one in found if offered(one.supports, task) is not None]


def _table(title: str, task: Task, columns: Sequence[Column]) -> str:
    fields = sorted(FIELDS[task], key=_order)
    taken = [
        field for field in fields if any(field in _offered(one.supports, task) for one in columns)
    ]
    refused = [f"`{field}`" for field in fields if field not in taken]
    lines = [
        *([f"### {title}\n"] if title else []),
        f"| field | {' | '.join(column.name for column in columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(
            f"| `{field}` | {' | '.join(_cell(one.supports, task, field) for one in columns)} |"
            for field in taken
        ),
    ]
    if task == "chat":
        lines.append(
            f"| `{REASONING}` | {' | '.join(_thoughts(one.supports) for one in columns)} |"
        )
    if refused:
        lines += ["", f"Not supported by any of these: {', '.join(refused)}."]
    return "\n".join([*lines, ""])


def _order(field: str) -> tuple[int, str]:
    """Sampling fields in the order of schemas/sampling.py, then the rest."""
    return (SAMPLING.index(field), "") if field in SAMPLING else (len(SAMPLING), field)


def _offered(supports: Supports, task: Task) -> frozenset[str]:
    return offered(supports, task) or frozenset()


def _cell(supports: Supports, task: Task, field: str) -> str:
    said = sent_as(supports, task, field)
    if said is None:
        return "–"
    bounds = supports.ranges.get(field, Range())
    words = [describe_range(bounds)]
    if field == "tools" and TOOL_PROPERTIES in supports.ranges:
        words.append(f"properties of each: {describe_range(supports.ranges[TOOL_PROPERTIES])}")
    if field in supports.requires:
        words.insert(0, "required")
    return "; ".join([_code(said, field) or "✓", *filter(None, words)])


def _thoughts(supports: Supports) -> str:
    """The kinds of reasoning from earlier turns that the backend reads."""
    if supports.proofs and not supports.thoughts:
        return "encrypted by itself"
    kinds = [kind for kind in sorted(ALL_THOUGHTS) if kind in supports.thoughts]
    return "✓" if len(kinds) == len(ALL_THOUGHTS) else ", ".join(kinds) or "–"


def _code(said: str, field: str) -> str:
    """Paths as code, remarks and conjunctions as text; for content only the resulting type."""
    marked = re.sub(r"\([^)]*\)|[^ ()]+", _marked, said)
    return re.sub(r"[^`]*\[\]\.(?=[^`])", "", marked) if field in MESSAGES else marked


def _marked(found: re.Match[str]) -> str:
    word = found.group()
    return word if word.startswith("(") or word in ("+", "or") else f"`{word}`"


def _catalogue() -> str:
    known = supports_of(COMPATIBLE)
    lines = [
        "## The catalogue\n",
        f"OpenAI's dialect as for *{COMPATIBLE}* above, without what the vendor does not support; "
        "sources and details: [providers/compatible.md](providers/compatible.md).\n",
        "| adapter | base URL | tasks not offered | not supported | bounds and names |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(name, supports_of(name), known) for name in sorted(ROWS)]
    return "\n".join([*lines, ""])


def _row(name: str, supports: Supports, known: Supports) -> str:
    tasks = [task for task in FIELDS if offered(known, task) and offered(supports, task) is None]
    lacking = {
        task: _offered(known, task) - _offered(supports, task)
        for task in FIELDS
        if task not in tasks
    }
    everywhere = frozenset[str]().union(*lacking.values())
    refused = [f"`{field}`" for field in sorted(everywhere)]
    bounds = [f"`{field}`: {describe_range(one)}" for field, one in supports.ranges.items()]
    more = _offered(supports, "chat") - _offered(known, "chat")
    bounds += [f"`{field}` is supported" for field in sorted(more)]
    bounds += [
        f"`{field}` as {_code(said, field)}"
        for task in ("chat", "embeddings")
        for field, said in supports.translated.get(task, {}).items()
    ]
    cells = (
        REGISTRY.base_url(name) or "required",
        ", ".join(tasks),
        ", ".join(refused),
        "; ".join(bounds),
    )
    return f"| {' | '.join([name, *(cell or '–' for cell in cells)])} |"


def _own_fields() -> str:
    names = [name for name in (*DIALECT, *RESPONSES, *OTHERS) if name not in ROWS]
    everything = [name for name in names if supports_of(name).extra]
    nothing = [name for name in names if not _takes_more(supports_of(name))]
    lines = [
        "## Vendors' own fields\n",
        f"A top-level field that is in none of these tables is passed on unchanged to "
        f"{', '.join(everything)} and all of the catalogue, is rejected for {', '.join(nothing)}, "
        "and for the others unless it is listed here:\n",
        "| adapter | passed on unchanged |",
        "|---|---|",
    ]
    for name in names:
        for task, fields in supports_of(name).extra_fields.items():
            listed = ", ".join(f"`{field}`" for field in sorted(fields))
            lines.append(f"| {name}, {TITLES[task].lower()} | {listed} |")
    return "\n".join([*lines, ""])


def _withheld() -> str:
    """Group paths by reason, because most rows of a table share one."""
    lines = [
        "## Fields that are withheld\n",
        "The gateway does not send a client's fields with these names unless "
        "`providers[].client_fields.allow` ([configuration.md](configuration.md)) allows them; `*` "
        f"stands for any characters of a name. The whole table applies to *{COMPATIBLE}*, Triton "
        "and plug-ins without their own table.\n",
        "| adapter | withheld | reason |",
        "|---|---|---|",
    ]
    tables = {
        "every open dialect": NAMES,
        "every open dialect of a known vendor": VLLMS_OWN,
        **VENDORS_WITHHELD,
    }
    for name, table in sorted(tables.items(), key=lambda item: (item[1] is not NAMES, item[0])):
        reasons: dict[str, list[str]] = {}
        for row in table:
            omitted = " (omitted, never rejected)" if row.optional else ""
            reasons.setdefault(row.reason + omitted, []).append(f"`{row.path}`")
        lines += [f"| {name} | {', '.join(some)} | {why} |" for why, some in reasons.items()]
    return "\n".join([*lines, ""])


def _takes_more(supports: Supports) -> bool:
    return supports.extra or bool(supports.extra_fields)
