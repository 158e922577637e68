"""The sentences of the page: each has its Chinese one, and a reader gets the wanted language."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from markupsafe import Markup

from strowger_gateway.gateway.console.admin.page.script_words import SENTENCES
from strowger_gateway.gateway.platform.language import SENTENCE, answer_in, preferred, words_of

SOURCES = Path(__file__).parents[3] / "gateway"
STATIC = SOURCES / "console/admin/page/static"
TRANSLATORS = ("say", "sentence")


@pytest.fixture(autouse=True)
def english_afterwards() -> Iterator[None]:
    yield
    answer_in("en")


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


def test_a_template_translates_its_sentences_and_escapes_its_values(tmp_path: Path) -> None:
    (tmp_path / "zh.json").write_text(json.dumps({"of <b>{whole}</b>": "共 <b>{whole}</b>"}))
    table = words_of(str(tmp_path / "view.py")).template("<p>[[of\n<b>{whole}</b>]] {unit}</p>")
    assert table.format(whole=3, unit="<i>") == "<p>of <b>3</b> &lt;i&gt;</p>"
    answer_in("zh")
    assert table.format(whole=3, unit="<i>") == "<p>共 <b>3</b> &lt;i&gt;</p>"


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


def test_every_sentence_of_a_script_is_handed_to_it() -> None:
    said = {
        one
        for script in STATIC.glob("*.js")
        for one in re.findall(r'\bsay\(\s*"([^"]+)"', script.read_text())
    }
    assert said | {"auto", "light", "dark"} == set(SENTENCES)


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
            of_template = isinstance(node.func, ast.Attribute) and node.func.attr == "template"
            found = SENTENCE.findall(first.value) if of_template else [first.value]
            yield from (" ".join(one.split()) if of_template else one for one in found)


def names_in(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}
