"""What commands print to a terminal cannot control it, whatever its source."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.cli.terminal_output import guard_terminal, unguarded, without_controls

HOSTILE = "a\x1b[2J\x1b]52;c;aGk=\x07\x9b1A\x85\x00\x08\rb\tc\n"
SHOWN = "a[2J]52;c;aGk=1Ab\tc\n"


class Terminal(io.TextIOWrapper):
    """A terminal. bytes: that it got."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return self.bytes.getvalue().decode()


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard output is a terminal, and standard error a file."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    guard_terminal()
    return screen


def test_text_loses_its_controls_and_keeps_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)

    sys.stdout.write(HOSTILE)
    sys.stdout.writelines(["\x1b[1;31mred\x1b[0m ", "日本"])

    assert terminal.text == SHOWN + "\x1b[1;31mred\x1b[0m 日本"


def test_bytes_lose_them_wherever_they_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)

    for one in (HOSTILE + "é").encode():
        sys.stdout.buffer.write(bytes([one]))

    assert terminal.text == SHOWN + "é"


def test_what_is_not_a_terminal_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)

    assert isinstance(sys.stderr, io.StringIO)
    guard_terminal()
    assert unguarded(sys.stdout) is terminal


@given(st.text())
def test_only_line_breaks_and_tabs_are_left_of_all_controls(text: str) -> None:
    left = without_controls(text)

    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in left if one not in "\n\t")
    assert [one for one in text if one.isprintable()] == [one for one in left if one.isprintable()]
