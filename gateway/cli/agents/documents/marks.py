"""What editors put around a text, kept as it is: a byte order mark, and line ends of Windows."""

from typing import Final

from strowger_gateway.gateway.cli.agents.documents.document import FileFormat, Path, Value

_MARK: Final = "\ufeff"


class Marked:
    """See FileFormat. `inner` sees a text without a mark and with line ends of one kind.

    A text with line ends of both kinds stays as it is.
    """

    def __init__(self, inner: FileFormat) -> None:
        self._inner = inner

    def read(self, text: str) -> dict[str, Value]:
        return self._inner.read(_plain(text))

    def put(self, text: str, path: Path, value: Value) -> str:
        return _as_before(text, self._inner.put(_plain(text), path, value))

    def drop(self, text: str, path: Path) -> str:
        return _as_before(text, self._inner.drop(_plain(text), path))


def _from_windows(text: str) -> bool:
    return "\r\n" in text and text.count("\r\n") == text.count("\n")


def _plain(text: str) -> str:
    text = text.removeprefix(_MARK)
    return text.replace("\r\n", "\n") if _from_windows(text) else text


def _as_before(before: str, text: str) -> str:
    if _from_windows(before):
        text = text.replace("\n", "\r\n")
    return _MARK + text if before.startswith(_MARK) else text
