"""The sentences of the page in the reader's language.

A module of a view keeps the catalogues of its folder, and passes each sentence that it shows:

    say = words_of(__file__)
    say("Recent requests")
    say("{count} attempts", count=3)
    LABELS = {"ok": sentence("answered")}; say(LABELS["ok"])
    TABLE = say.template('<th>[[Recent requests]]</th>{rows}'); TABLE.format(rows=rows)

The English sentence is the key, and `zh.json` next to the module has its translations into
Simplified Chinese. A sentence without one appears in English. Text from clients, vendors and
operators is passed as a value.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec
from markupsafe import Markup

Language = Literal["en", "zh"]

LANGUAGES: Final[Mapping[Language, str]] = {"en": "English", "zh": "简体中文"}
"""Those that the page is written in, by their names in themselves."""

SENTENCE: Final = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)
"""One sentence in a template."""

_LANGUAGE: ContextVar[Language] = ContextVar("language", default="en")


def language() -> Language:
    """Return the language of the request that is being answered."""
    return _LANGUAGE.get()


def answer_in(chosen: Language) -> None:
    """Set the language for the rest of the current request."""
    _LANGUAGE.set(chosen)


def preferred(accept_language: str) -> Language:
    """Return the language of the page that a reader prefers; English if none is wanted.

    accept_language: the header, such as `zh-CN,zh;q=0.9,en;q=0.8`. Of equal weights the first wins.
    An entry whose weight is not a number does not count.

    https://www.rfc-editor.org/rfc/rfc9110#section-12.5.4
    """
    best: Language = "en"
    most = 0.0
    for entry in accept_language.split(","):
        tag, _, weight = entry.partition(";")
        wanted = _weight(weight)
        for one in LANGUAGES:
            if tag.strip().lower().split("-")[0] == one and wanted > most:
                best, most = one, wanted
    return best


def _weight(text: str) -> float:
    """text: `q=0.8`, or "" for 1."""
    _, _, number = text.partition("=")
    if not text.strip():
        return 1.0
    try:
        return float(number)
    except ValueError:
        return 0.0


class Words:
    """Translates the sentences of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, sentence: str, /, **values: object) -> str:
        """Return a sentence for the current reader. values: of its `{names}`."""
        told = catalogue(self._folder, language()).get(sentence, sentence)
        return told.format(**values) if values else told

    def template(self, html: str, /) -> "PageTemplate":
        """Return HTML in which each sentence is in double square brackets."""
        return PageTemplate(self._folder, html)

    def markup(self, sentence: str, /, **values: object) -> Markup:
        """Return a sentence that has HTML in it; values are escaped unless they are Markup."""
        return Markup(catalogue(self._folder, language()).get(sentence, sentence)).format(**values)


class PageTemplate:
    """HTML with sentences in it, as `[[Recent requests]]`, and `{names}` of values.

    A sentence may have HTML and `{names}` in it; of the space in it, each run is one.
    """

    def __init__(self, folder: Path, html: str) -> None:
        self._folder = folder
        self._html = html
        self._by_language: dict[Language, Markup] = {}

    def format(self, *args: object, **values: object) -> Markup:
        """Return the HTML for the current reader; values are escaped unless they are Markup."""
        chosen = language()
        if chosen not in self._by_language:
            known = catalogue(self._folder, chosen)
            self._by_language[chosen] = Markup(
                SENTENCE.sub(lambda found: _translated(found[1], known), self._html)
            )
        return self._by_language[chosen].format(*args, **values)


def _translated(text: str, known: Mapping[str, str]) -> str:
    english = " ".join(text.split())
    return known.get(english, english)


def sentence(text: str) -> str:
    """Mark a sentence that a table holds, and that is passed to a translator later."""
    return text


def words_of(file: str) -> Words:
    """Return the translator of a module. file: its `__file__`."""
    return Words(Path(file).parent)


@cache
def catalogue(folder: Path, chosen: Language) -> Mapping[str, str]:
    """Return the sentences of a folder by their English; empty for English, or without a file.

    Raises msgspec.DecodeError unless the file is a JSON object of texts.
    """
    path = folder / f"{chosen}.json"
    if chosen == "en" or not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
