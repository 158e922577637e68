"""The sentences of the page: each has its Chinese one, and a reader gets the wanted language."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from markupsafe import Markup

from strowger_gateway.gateway.platform.language import answer_in, preferred, words_of

SOURCES = Path(__file__).parents[3] / "gateway"
TRANSLATORS = ("say", "sentence")


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-GB,en;q=0.9,zh;q=0.8", "en"),
        ("fr,zh-TW;q=0.5,en;q=0.4", "zh"),
        ("de, *;q=0.5", "en"),
        ("zh;q=0", "en"),
        ("zh;q=much, en;q=0.1", "en"),
        ("ZH-Hans", "zh"),
    ],
)
def test_a_reader_gets_the_language_that_the_browser_prefers(header: str, wanted: str) -> None:
    assert preferred(header) == wanted


def test_a_catalogue_translates_and_escapes_and_lets_the_rest_be_english(tmp_path: Path) -> None:
    (tmp_path / "zh.json").write_text(json.dumps({"{count} attempts": "{count} 次尝试"}))
    say = words_of(str(tmp_path / "view.py"))
    assert say("{count} attempts", count=3) == "3 attempts"
    answer_in("zh")
    assert say("{count} attempts", count=3) == "3 次尝试"
    assert say.markup("{count} attempts", count="<b>") == Markup("&lt;b&gt; 次尝试")
    assert say("Not in it") == "Not in it"


def test_every_sentence_of_the_page_has_a_chinese_one_and_no_catalogue_has_more() -> None:
    sentences: dict[Path, set[str]] = {}
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        if "\nsay = words_of(__file__)" in text or "import sentence" in text:
            sentences.setdefault(path.parent, set()).update(said_in(ast.parse(text)))
    assert sentences.keys() == {path.parent for path in SOURCES.rglob("zh.json")}
    for folder, said in sentences.items():
        known: dict[str, str] = json.loads((folder / "zh.json").read_text())
        assert known.keys() == said, f"{folder.name}/zh.json"
        for english, chinese in known.items():
            assert names_in(chinese) == names_in(english), english


def said_in(tree: ast.Module) -> Iterator[str]:
    """The literal sentences that are passed to a translator, or marked for one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        first = node.args[0]
        if (
            isinstance(called, ast.Name)
            and called.id in TRANSLATORS
            and isinstance(first, ast.Constant)
            and isinstance(first.value, str)
        ):
            yield first.value


def names_in(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}
