"""The published facts about models: the table itself, and which row a backend gets."""

import json
from datetime import UTC, date, datetime

import pytest

from strowger_gateway.gateway.assembly.wiring.models import models_of
from strowger_gateway.gateway.cli.known_models.retirement import retirements
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.model_table.table import FILE, read_table
from strowger_gateway.gateway.routing.planning.model_facts import ModelFacts

PROVIDERS = """
providers:
  - {name: openai, adapter: openai, api_key: k}
  - {name: azure, adapter: azure, base_url: "https://x.openai.azure.com/openai/v1", api_key: k}
  - {name: claude, adapter: anthropic, api_key: k}
  - {name: bedrock, adapter: bedrock, aws: {region: us-east-1}, api_key: k}
  - {name: gemini, adapter: gemini, api_key: k}
  - {name: own, adapter: vllm, base_url: "http://127.0.0.1:9/v1"}
"""


def facts(backend: str, more: str = "") -> ModelFacts:
    provider, _, model = backend.partition("/")
    text = f"""{PROVIDERS}
models:
  - {{name: m, backends: [{{provider: {provider}, model: "{model}"}}]}}
  - {{name: "o-*", backends: [{{provider: openai, model: "*"}}]}}
{more}
"""
    return models_of(read_config(text, source="config.yaml", env={})).of(backend)


def test_every_row_is_consistent_and_names_its_source() -> None:
    table = read_table()
    sources = {source.name for source in table.sources}

    assert set(table.models) == {vendor.name for vendor in table.vendors}
    for vendor in table.models:
        for row in table.rows(vendor).values():
            assert set(row.source.split(", ")) <= sources
            assert row.url.startswith("https://")
            assert row.context or row.max_output
            assert (row.context or 1) > 0
            assert (row.max_output or 1) > 0
            assert date(2026, 1, 1) <= row.date <= datetime.now(UTC).date()


def test_the_file_has_one_row_per_line_sorted_so_that_a_correction_is_a_small_difference() -> None:
    text = FILE.read_text(encoding="utf-8")
    lines = [line.strip().rstrip(",") for line in text.splitlines() if line.startswith("  ")]
    whole = json.loads(text)
    models = [row for rows in whole["models"].values() for row in rows]

    assert [json.loads(line) for line in lines] == [*whole["sources"], *whole["vendors"], *models]
    for rows in whole["models"].values():
        ids = [row["id"] for row in rows]
        assert ids == sorted(set(ids))


def test_many_models_of_every_large_vendor_are_known() -> None:
    table = read_table()
    large = ("openai", "anthropic", "gemini", "mistral", "cohere", "deepseek", "xai", "bedrock")
    others = ("azure", "vertex", "meta", "dashscope", "zhipu", "zai", "moonshot", "groq")

    assert all(len(table.rows(vendor)) >= 9 for vendor in (*large, *others))


@pytest.mark.parametrize(
    ("backend", "context", "most"),
    [
        ("openai/gpt-4o", 128_000, 16_384),
        ("openai/gpt-4o-2024-08-06", 128_000, 16_384),
        ("openai/gpt-4o-2024-05-13", 128_000, 4_096),
        ("azure/gpt-4o-mini", 128_000, 16_384),
        ("claude/claude-haiku-4-5-20251001", 200_000, 64_000),
        ("claude/claude-opus-4-7-latest", 1_000_000, 128_000),
        ("bedrock/us.amazon.nova-pro-v1:0", 300_000, 10_000),
        ("gemini/models/gemini-2.5-pro", 1_048_576, 65_536),
        ("gemini/gemini-2.5-flash", 1_048_576, 65_536),
    ],
)
def test_a_backend_gets_its_models_row_by_id_date_alias_or_region(
    backend: str, context: int, most: int
) -> None:
    found = facts(backend)

    assert (found.context, found.max_output) == (context, most)
    assert "read on 2026-" in found.source


@pytest.mark.parametrize("backend", ["own/gpt-4o", "openai/gpt-4o-of-our-own", "claude/gpt-4o"])
def test_what_no_row_names_stays_unknown(backend: str) -> None:
    assert facts(backend) == ModelFacts()


def test_models_behind_a_wildcard_are_looked_up_by_the_requested_name() -> None:
    text = f'{PROVIDERS}\nmodels: [{{name: "*", backends: [{{provider: openai, model: "*"}}]}}]\n'
    known = models_of(read_config(text, source="config.yaml", env={}))

    assert known.of("openai/gpt-4.1-2025-04-14").context == 1_047_576
    assert known.of("openai/none").context is None


def test_the_operators_facts_replace_the_published_ones_one_by_one() -> None:
    more = """capabilities:
  - {match: openai/*, max_output: 7, tools: false}
  - {match: openai/gpt-4*, context: unknown, max_output: 9}"""

    found = facts("openai/gpt-4o", more)

    assert (found.context, found.longest_prompt, found.max_output) == (None, None, 9)
    assert found.tools is True
    assert found.structured_output is True
    assert found.source.startswith("capabilities[1]; ")


def test_a_published_number_of_thousands_may_mean_thousands_of_1024() -> None:
    assert facts("openai/gpt-4o").longest_prompt == 131_072
    assert facts("claude/claude-opus-4-7").longest_prompt == 1_048_576
    assert facts("gemini/gemini-2.5-pro").longest_prompt == 1_048_576
    exact = facts("openai/gpt-4o", "capabilities: [{match: openai/gpt-4o, context: 128000}]")
    assert exact.longest_prompt == 128_000


def test_retirements_are_announced_two_months_before() -> None:
    text = f"""{PROVIDERS}
models:
  - name: m
    backends:
      - {{provider: own, model: a}}
      - {{provider: own, model: b}}
      - {{provider: own, model: c}}
capabilities:
  - {{match: own/a, retires: 2030-03-02}}
  - {{match: own/b, retires: 2030-03-01}}
  - {{match: own/c, retires: 2029-12-31}}
"""
    config = read_config(text, source="config.yaml", env={})

    found = list(retirements(config, models_of(config), date(2029, 12, 31)))

    assert [line.partition(" (")[0] for line in found] == [
        "own/b: the model retires on 2030-03-01",
        "own/c: the model retired on 2029-12-31",
    ]
