"""Tables on terminals of any width: dates, figures and names stay whole."""

import pytest

from tests.gateway.cli.terminals.screen import on_screen
from tests.gateway.forked_commands import printed

pytestmark = pytest.mark.anyio


async def shown(columns: int, *words: str, **env: str) -> list[str]:
    async with on_screen(*words, columns=columns, env={"COLUMNS": "", **env}) as up:
        assert await up.exits() == 0
        await up.screen.closed()
    return up.screen.shown.splitlines()


async def piped(*words: str) -> list[str]:
    _, stdout, _ = await printed(*words)
    return stdout.splitlines()


async def test_a_table_that_does_not_fit_has_long_texts_in_several_lines() -> None:
    lines, whole = await shown(110, "models"), await piped("models")
    widest = max((line.rstrip() for line in whole), key=len)

    assert len(widest) > 110, "a table that fits needs nothing"
    assert max(map(len, lines)) <= 110
    assert len(lines) > len(whole)
    assert sorted("".join(lines).replace(" ", "")) == sorted("".join(whole).replace(" ", ""))


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
async def test_a_table_that_cannot_fit_has_one_line_per_row(term: str) -> None:
    lines, whole = await shown(60, "models", TERM=term), await piped("models")

    assert [line.split() for line in lines] == [line.split() for line in whole]
    assert max(map(len, lines)) > 60
    assert not any(line.endswith(" ") for line in lines)
