"""Patterns that are too large together, and texts with very many findings."""

import json

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.content.guardrails.patterns import MOST_FINDINGS, pattern_hook
from strowger_gateway.gateway.content.guardrails.setup import guards_of
from strowger_gateway.gateway.content.hooks.text_hook import masked
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.serving import one_model


@pytest.mark.parametrize(
    "settings",
    [
        {"words": [f"{number:x}-word-of-a-long-list" for number in range(9000)]},
        {"patterns": [{"name": f"p{n}", "regex": f"\\pL{{20,100}}{n}"} for n in range(9)]},
    ],
)
def test_patterns_that_are_too_large_together_are_refused(settings: dict[str, object]) -> None:
    rail = f"guardrails: [{{name: g, use: patterns, settings: {json.dumps(settings)}}}]"
    text = one_model("http://127.0.0.1:9/v1", rail)
    config = read_config(text, source="config.yaml", env={})
    with pytest.raises(
        InvalidConfig, match=r"guardrails\[0\].settings: the patterns and words are too"
    ):
        guards_of(config)


def test_a_text_of_nothing_but_findings_is_masked_in_little_time() -> None:
    hook = pattern_hook({"words": ["forbidden"]})
    text = "forbidden word, " * (2 * MOST_FINDINGS) + "the end"

    spans = hook.find(text, 0)
    masking = masked(text, spans)

    assert len(spans) == MOST_FINDINGS + 1
    assert masking == "[masked] word, " * MOST_FINDINGS + "[masked]"
