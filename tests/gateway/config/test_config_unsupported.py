"""Settings that this version does not support are rejected by name, never ignored."""

import pytest

from gateway.config.unsupported import UNSUPPORTED
from tests.gateway.config.configs import GOOD, faults, read

TOP_LEVEL = [
    ("logging: {payloads: on}", "logging.payloads: logging payloads"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), TOP_LEVEL)
def test_a_section_that_does_nothing_yet_is_refused(text: str, told: str) -> None:
    assert faults(f"{GOOD}{text}\n") == [f"{told} is not available yet; remove it"]


def test_writing_a_default_out_is_not_refused() -> None:
    text = f"""{GOOD}
server: {{workers: 1}}
store: {{url: "sqlite:///strowger.db", redis_url: null, usage: best_effort}}
auth: {{admin_key: "${{ADMIN:-}}"}}
experiments: []
limits: []
budgets: []
prices: []
logging: {{payloads: off}}
telemetry: {{otlp: null}}
"""

    assert read(text) == read(GOOD)


def test_a_wrong_value_is_reported_once_and_not_as_unavailable() -> None:
    assert faults(f"{GOOD}store: {{usage: requird}}") == [
        'store.usage: expected one of "best_effort", "required", found "requird"; '
        'did you mean "required"?'
    ]


def test_every_row_of_the_table_is_tried_by_a_test() -> None:
    tried = {told.split(":")[0].replace("[0]", "[]") for _, told in TOP_LEVEL}

    assert {row.path for row in UNSUPPORTED} == tried
