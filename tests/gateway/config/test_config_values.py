"""Values of the configuration as an operator writes them out."""

import pytest
from msgspec.structs import replace

from tests.gateway.config.configs import GOOD, faults, read


def test_writing_a_default_out_changes_nothing() -> None:
    text = f"""{GOOD}
server: {{workers: 1}}
store: {{url: "sqlite:///strowger.db", redis_url: null, usage: best_effort}}
auth: {{admin_key: "${{ADMIN:-}}"}}
experiments: []
limits: []
budgets: []
prices: []
logging: {{payloads: {{mode: off}}}}
telemetry: {{otlp: null}}
"""

    # The digest is one of the file as written, defaults included.
    assert replace(read(text), digest="") == replace(read(GOOD), digest="")


def test_a_wrong_value_is_reported_once() -> None:
    assert faults(f"{GOOD}store: {{usage: requird}}") == [
        'store.usage: expected one of "best_effort", "required", found "requird"; '
        'did you mean "required"?'
    ]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("end_users: {sources: []}", "end_users.sources: expected 1 to 8 entries, found 0"),
        (
            f"end_users: {{sources: [{'user, ' * 9}]}}",
            "end_users.sources: expected 1 to 8 entries, found 9",
        ),
        (
            f"teams: [{{name: red, limits: [{'{name: l, requests: 1}, ' * 21}]}}]",
            "teams[0].limits: expected at most 20 entries, found 21",
        ),
        (
            f"teams: [{{name: {'t' * 300}}}]",
            "teams[0].name: expected 1 to 256 characters, found 300",
        ),
    ],
    ids=["none", "nine", "limits", "name"],
)
def test_a_list_or_a_text_of_a_wrong_length_is_a_fault(line: str, fault: str) -> None:
    assert fault in faults(f"{GOOD}{line}\n")


def test_an_export_runs_at_least_once_per_year() -> None:
    assert faults(f"{GOOD}store: {{export: {{to: out, every_s: 1e15}}}}\n") == [
        "store.export.every_s: expected a number from 1 to 31622400, found 1000000000000000.0"
    ]


def test_rules_of_payload_logging_are_checked() -> None:
    rules = "[{}, {field: a, pattern: b}, {pattern: (}, {field: a..b}, {field: 'a[].b'}]"
    found = faults(f"{GOOD}logging: {{payloads: {{mode: all, to: otlp, redact: {rules}}}}}\n")

    assert found[:3] == [
        "logging.payloads.to: otlp needs telemetry.otlp, which names the collector",
        "logging.payloads.redact[0]: give one of field and pattern",
        "logging.payloads.redact[1]: give one of field and pattern",
    ]
    assert found[3].startswith("logging.payloads.redact[2].pattern: is not a regular expression")
    assert found[4].startswith("logging.payloads.redact[3].field: is not a key or a path")
    assert len(found) == 5
