"""docs/parameters.md has the data for every field and adapter that the router uses."""

from tests.parameters.page import OTHERS, page, supports_of
from tests.parameters.write import DOCUMENT


def test_the_documented_parameters_are_those_of_the_adapters() -> None:
    assert page() == DOCUMENT.read_text(), "docs/parameters.md is out of date: make parameters"


def row(field: str, after: str) -> list[str]:
    """The cells of a field's first row after a heading."""
    text = DOCUMENT.read_text().partition(f"\n{after}\n")[2]
    line = next(line for line in text.splitlines() if line.startswith(f"| `{field}` |"))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_a_cell_shows_name_bounds_and_impossibility() -> None:
    chatting = [one for one in OTHERS if supports_of(one).chat is not None]
    chat = dict(zip(["field", *chatting], row("stop", "### Formats of their own"), strict=False))

    assert chat["anthropic"] == "`stop_sequences`"
    assert chat["cohere"] == "`stop_sequences`; at most 5 entries"
    assert chat["bedrock"] == "`inferenceConfig.stopSequences`; at most 2500 entries"
