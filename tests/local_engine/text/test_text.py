"""Tokens to text and back: whole characters, stop strings, chat templates, names of tokens."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.local_engine.text.detokenizer import PATIENCE, Detokenizer
from strowger_gateway.local_engine.text.stop_strings import StopStrings
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    OpaqueTool,
    TextPart,
    ToolCall,
)
from tests.examples import examples
from tests.local_engine.tiny import CORPUS, Kind, save_tokenizer

KINDS: tuple[Kind, ...] = ("byte_level", "byte_fallback")
TEXTS = st.text(max_size=40) | st.sampled_from([*CORPUS, "🎉" * 7, "é" * 9, " a  b ", "世界 the"])

SPOKEN = """{% for m in messages %}[{{ m.role }}|{{ m.content }}
{%- if m.tool_calls %}{{ m.tool_calls[0].function.arguments.city }}{% endif %}]{% endfor %}
{%- if tools %}{{ tools[0].function.name }}{{ tools[0].function.parameters.type }}{% endif %}
{%- if messages[0].role == 'developer' %}developers are known{% endif %}"""


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Tokenizer]:
    made: dict[Kind, Tokenizer] = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        save_tokenizer(folder, kind)
        made[kind] = Tokenizer(str(folder))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_a_streamed_text_add_up_to_the_text(
    kind: Kind, tokenizers: dict[Kind, Tokenizer]
) -> None:
    tokenizer = tokenizers[kind]

    @settings(deadline=None, max_examples=examples(150))
    @given(TEXTS, TEXTS)
    def check(before: str, text: str) -> None:
        prompt = tokenizer.encode(before, special=False)
        tokens = tokenizer.encode(text, special=False)
        detokenizer = Detokenizer(tokenizer, prompt)

        pieces = [detokenizer.feed(token) for token in tokens]

        assert not any("\ufffd" in piece for piece in pieces) or "\ufffd" in text
        known = tokenizer.decode(prompt)
        whole = tokenizer.decode(prompt + tokens)
        assert known + "".join(pieces) + detokenizer.close() == whole

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_never_become_a_character_are_not_held_forever(
    kind: Kind, tokenizers: dict[Kind, Tokenizer]
) -> None:
    tokenizer = tokenizers[kind]
    lead = next(id for id in range(400) if tokenizer.token_bytes(id) == b"\xf0")
    detokenizer = Detokenizer(tokenizer, [])

    pieces = [detokenizer.feed(lead) for _ in range(PATIENCE)]

    assert "".join(pieces).strip("\ufffd") == ""
    assert pieces[-1]


def test_an_unfinished_character_is_shown_as_such_at_the_end(
    tokenizers: dict[Kind, Tokenizer],
) -> None:
    tokenizer = tokenizers["byte_fallback"]
    tokens = tokenizer.encode("x🎉", special=False)
    detokenizer = Detokenizer(tokenizer, [])
    pieces = [detokenizer.feed(token) for token in tokens[:-1]]

    rest = detokenizer.close()

    assert "".join(pieces) == "x"
    assert set(rest) == {"\ufffd"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_tokens_add_up_to_the_text(
    kind: Kind, tokenizers: dict[Kind, Tokenizer]
) -> None:
    tokenizer = tokenizers[kind]
    for text in (*CORPUS, "🎉 x  é"):
        joined = b"".join(tokenizer.token_bytes(i) for i in tokenizer.encode(text, special=False))
        assert joined.decode().lstrip(" ") == text.lstrip(" ")
    assert tokenizer.token_bytes(3) == b"<|user|>"
    assert tokenizer.token_bytes(10**6) == b""


PIECES = st.lists(st.text("ab.", max_size=4), max_size=12)
STOPS = st.lists(st.text("ab.", min_size=1, max_size=4), max_size=3)


@given(PIECES, STOPS)
def test_an_answer_ends_at_the_first_piece_that_completes_a_stop_string(
    pieces: list[str], stops: list[str]
) -> None:
    matcher = StopStrings(stops)
    shown, match = "", None
    text = ""

    for piece in pieces:
        text += piece
        cut = matcher.feed(piece)
        shown += cut.text
        match = cut.match
        found = {stop: text.find(stop) for stop in stops if stop in text}
        if found:
            at = min(found.values())
            assert shown == text[:at]
            assert match == max((s for s in found if found[s] == at), key=len)
            return
        assert match is None
        assert text.startswith(shown)

    assert shown + matcher.close() == text


def test_text_is_held_back_only_as_long_as_it_may_become_a_stop_string() -> None:
    matcher = StopStrings(["abc"])

    shown = [matcher.feed(piece).text for piece in ("xa", "b", "ab", "d")]

    assert shown == ["x", "", "ab", "abd"]


def spoken(folder: Path, template: str = SPOKEN) -> Tokenizer:
    save_tokenizer(folder, template=template)
    return Tokenizer(str(folder))


def test_templates_get_tool_calls_as_mappings_and_tools_as_functions(tmp_path: Path) -> None:
    call = ToolCall(id="1", name="weather", arguments='{"city": "Bonn"}')
    messages = (
        Message(role="user", content=(TextPart(text="a"), TextPart(text="b"))),
        Message(role="assistant", tool_calls=(call,)),
        Message(role="function", content="rain", tool_call_id="1"),
    )
    tools = (FunctionTool(name="weather", parameters=Raw(b'{"type": "object"}')),)

    text = spoken(tmp_path).chat.render(messages, tools)

    assert text == "[user|ab][assistant|Bonn][tool|rain]weatherobject"


def test_a_template_with_a_developer_role_gets_developer_messages(tmp_path: Path) -> None:
    text = spoken(tmp_path).chat.render((Message(role="developer", content="x"),))

    assert text == "[developer|x]developers are known"


def test_a_template_that_names_developers_to_refuse_them_gets_system_messages(
    tmp_path: Path,
) -> None:
    refuses = "{% if messages[0].role == 'developer' %}{{ raise_exception('no') }}{% endif %}"

    text = spoken(tmp_path, refuses + SPOKEN).chat.render((Message(role="developer", content="x"),))

    assert text == "[system|x]"


def test_system_messages_anywhere_reach_a_template_that_takes_one(tmp_path: Path) -> None:
    strict = (
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('must be at the beginning') }}{% endif %}"
        "[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    messages = (
        Message(role="system", content="A"),
        Message(role="developer", content="B"),
        Message(role="user", content="one"),
        Message(role="system", content="C"),
    )

    text = spoken(tmp_path, strict).chat.render(messages)

    assert text == "[system]A\n\nB[user]one[user]<system>\nC\n</system>"


def test_parts_and_tools_that_are_not_text_are_rejected_with_their_path(tmp_path: Path) -> None:
    chat = spoken(tmp_path).chat
    picture = Message(role="user", content=(TextPart(text="see"), ImagePart(url="data:,")))

    with pytest.raises(InvalidRequest, match=r"messages\[0\]\.content\[1\]: .*image"):
        chat.render((picture,))
    with pytest.raises(InvalidRequest, match=r"tools\[0\]: .*web_search"):
        chat.render((), (OpaqueTool(type="web_search", raw=Raw(b"{}")),))


def test_a_template_that_does_not_parse_refuses_the_conversation(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="chat template rejects"):
        spoken(tmp_path, "{% for %}").chat.render((Message(role="user", content="x"),))


def test_a_missing_tokenizer_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="the tokenizer at"):
        Tokenizer(str(tmp_path / "nothing"))
