"""`.env` files: one `NAME=VALUE` per line, as dotenv reads them."""

import re

from strowger_gateway.gateway.cli.agents.documents.document import Path, Unchangeable, Value

_LINE = re.compile(r"[ \t]*(export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*(.*?)[ \t]*$", re.ASCII)
_COMMENT = re.compile(r"""(?:"[^"]*"|'[^']*'|[^"'#]*?)([ \t]+\#.*)""")
_PLAIN = re.compile(r"[\w./:@%+,-]*", re.ASCII)


class EnvLines:
    """See FileFormat. Values with quotes of other kinds than "…" and '…' stay as they are."""

    def read(self, text: str) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for line in text.split("\n"):
            if match := _LINE.match(line):
                found[match[2]] = _unquoted(match[3])
        return found

    def put(self, text: str, path: Path, value: Value) -> str:
        name, words = _name(path), str(value)
        if "\n" in words or "'" in words:
            raise Unchangeable(f"{name}: cannot hold a line break or an apostrophe")
        line = f"{name}={words if _PLAIN.fullmatch(words) else repr(words)}"
        kept, found = text.split("\n"), False
        for place, one in enumerate(kept):
            match = _LINE.match(one)
            if match and match[2] == name:
                comment = _COMMENT.fullmatch(match[3])
                after = comment[1] if comment else ""
                kept[place], found = f"{match[1] or ''}{line}{after}", True
        if found:
            return "\n".join(kept) + ("" if text.endswith("\n") else "\n")
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"

    def drop(self, text: str, path: Path) -> str:
        name = _name(path)
        lines = text.split("\n")
        return "\n".join(one for one in lines if (m := _LINE.match(one)) is None or m[2] != name)


def _name(path: Path) -> str:
    [name] = path
    return str(name)


def _unquoted(text: str) -> str:
    if match := _COMMENT.fullmatch(text):
        text = text[: match.start(1)]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
