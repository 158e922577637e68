"""The program accepts every configuration in the documentation."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.parts.file_type import file_type
from strowger_gateway.schemas.errors import InvalidConfig

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
KEY = re.compile(r"^([A-Za-z_]+):", re.MULTILINE)
VARIABLE = re.compile(r"\$\{([A-Z_]+)\}")
BACKEND = re.compile(r"\b([a-z]+)/([a-z][a-z0-9.-]*)")
MODEL = re.compile(r"\b(?:model|match): \"?([\w./-]+)")
VENDORS = ("openai", "anthropic", "gemini")
ABSENT = re.compile(r"no such file or folder|needs? the package|is not installed|workers-ai")
"""What only the reader's own machine can have: files, packages, a plug-in."""
HERE = "adapter: local, engine: {models: [{name: tiny-chat, path: 'bundled:tiny-chat'}]}"


def snippets() -> Iterator[tuple[str, str]]:
    """Code blocks that are configurations or parts of them, by page and line."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for found in FENCE.finditer(text):
            keys = set(KEY.findall(found[1]))
            if keys and keys <= set(file_type(PARTS).__struct_fields__):
                line = text[: found.start()].count("\n") + 1
                yield f"{page.relative_to(ROOT)}:{line}", found[1]


SNIPPETS = dict(snippets())


def whole(part: str) -> str:
    """Add the providers and models that other parts of the page define."""
    tree: Mapping[str, list[Mapping[str, object]]] = yaml.safe_load(part)
    if "providers" not in tree:
        named = sorted({provider for provider, _ in BACKEND.findall(part)} | providers_of(tree))
        rows = [
            f"{{name: {name}, {HERE if name == 'here' else f'adapter: openai, base_url: https://{name}.test/v1'}}}"
            for name in named
        ]
        part += f"\nproviders: [{', '.join(rows) or '{name: p, adapter: openai, api_key: k}'}]\n"
    provider = yaml.safe_load(part)["providers"][0]["name"]
    backend = f"[{{provider: {provider}, model: {'tiny-chat' if provider == 'here' else 'm'}}}]"
    if "models" not in tree:
        return f"{part}\nmodels: [{{name: m, backends: {backend}}}]\n"
    lacking = sorted(others_of(tree) - {str(model["name"]) for model in tree["models"]})
    rows = "".join(f"  - {{name: {name}, backends: {backend}}}\n" for name in lacking)
    return re.sub(r"^models:\n", f"models:\n{rows}", part, flags=re.MULTILINE)


def providers_of(tree: Mapping[str, list[Mapping[str, object]]]) -> set[str]:
    return set(re.findall(r"'provider': '([^']+)'", str(tree)))


def others_of(tree: Mapping[str, list[Mapping[str, object]]]) -> set[str]:
    """Models that a model refers to."""
    found = re.findall(r"'(?:fallback|models)': \[([^\]{}]*)\]", str(tree["models"]))
    return {name for names in found for name in re.findall(r"'([^']+)'", names)}


@pytest.mark.parametrize("place", SNIPPETS)
def test_a_configuration_of_the_documentation_is_taken(place: str) -> None:
    text = whole(SNIPPETS[place])
    names = dict.fromkeys(VARIABLE.findall(text), "host.example.com")
    # Keys of one pool differ.
    env = {name: f"{value}-{name}" if "_KEY_" in name else value for name, value in names.items()}
    told: list[str] = []

    try:
        read_config(text, source=place, env=env, warn=told.append, parts=PARTS)
    except InvalidConfig as exc:
        told += [problem for problem in exc.problems if not ABSENT.search(problem)]

    assert told == []


def retiring() -> Iterator[str]:
    """Models of the examples that a vendor retires within half a year of the table's date."""
    table = json.loads(
        (ROOT / "gateway" / "config" / "model_table" / "models.json").read_text("utf-8")
    )
    rows = [row for name in VENDORS for row in table["models"][name]]
    latest = max(date.fromisoformat(row["date"]) for row in rows)
    dates = {row["id"]: row["retires"] for row in rows if "retires" in row}
    files = [*PAGES, *(ROOT / "deploy").rglob("*.yaml"), *(ROOT / "docs").rglob("*.yaml")]
    for file in files:
        for name in MODEL.findall(file.read_text("utf-8")):
            ends = dates.get(name.rpartition("/")[2])
            if ends is not None and date.fromisoformat(ends) < latest + timedelta(days=182):
                yield f"{file.relative_to(ROOT)}: {name} retires on {ends}"


def test_no_example_has_a_model_that_retires_soon() -> None:
    assert list(retiring()) == []


def test_the_documentation_has_configurations_at_all() -> None:
    assert len(SNIPPETS) >= 20
