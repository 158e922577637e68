"""Run the `strowger` command in this process, without a terminal."""

from collections.abc import Mapping

from click.testing import CliRunner, Result

from strowger_gateway.gateway.cli.main import strowger


def run(*words: str, env: Mapping[str, str] | None = None, typed: str | bytes = "") -> Result:
    """Run a command; only usage errors and exit statuses may end it. typed: its standard input."""
    result = CliRunner().invoke(strowger, list(words), env=dict(env or {}), input=typed)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result


def table(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose header starts with `first`, cells without padding."""
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if line.strip().startswith(first))
    rows = lines[start + 1 :]
    end = next((place for place, row in enumerate(rows) if not row.strip()), len(rows))
    return [[cell for cell in map(str.strip, row.split("   ")) if cell] for row in rows[:end]]
