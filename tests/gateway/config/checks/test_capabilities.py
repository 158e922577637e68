"""Faults and warnings of `capabilities`."""

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.config.configs import without_places

CONFIG = """
providers: [{name: p, adapter: openai, base_url: "http://127.0.0.1:9/v1"}]
models: [{name: m, backends: [{provider: p, model: gpt}]}]
capabilities:
"""


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("[{match: q/gpt}]", 'capabilities[0].match: no provider is named "q"'),
        ("[{match: p/gpt}, {match: p/gpt}]", "[1].match: is the same as capabilities[0]"),
        ("[{match: gpt}]", "capabilities[0].match"),
        ("[{match: p/gpt, context: 5, max_output: 6}]", "max_output: 6 is more than context (5)"),
        ("[{match: p/gpt, context: lots}]", "capabilities[0].context"),
        ("[{match: p/gpt, input: [smell]}]", "capabilities[0].input"),
        ("[{match: p/gpt, retires: tomorrow}]", "capabilities[0].retires"),
        ("[{match: p/gpt, retires: '2027-02-30'}]", '"2027-02-30" is not a date'),
    ],
)
def test_a_fault_names_its_place(rows: str, fault: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_config(CONFIG + f"  {rows}", source="c", env={})

    assert fault in "\n".join(caught.value.problems)


def test_a_row_for_no_backend_is_a_warning_with_the_nearest_name() -> None:
    warnings: list[str] = []

    read_config(CONFIG + "  [{match: p/gptt}]", source="c", env={}, warn=warnings.append)

    assert without_places(warnings) == [
        'c: capabilities[0].match: no model has the backend "p/gptt"; did you mean "p/gpt"?'
    ]
