"""A provider's tokenizer: text to tokens and back, and texts that it rejects."""

# tokenizers annotates its own members in part only:
# pyright: reportUnknownMemberType=false

import json
from pathlib import Path

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

from tokenizers import processors

from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import load_tokenizer
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest
from tests.gateway.backends.upstream.adaptation.vocabularies import (
    FAMILIES,
    TINY,
    byte_level,
    family,
    reads,
    word_piece,
)

TEXTS = ("the dog", " the dog", "Hello  world\n\n", "naïve 你好 🎉", "<|user|>the dog</s>", "x")


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("text", TEXTS)
def test_tokens_of_a_text_are_written_as_a_text_that_gives_them(name: str, text: str) -> None:
    tokenizer = family(name)
    ids = tokenizer.encode(text)

    written = tokenizer.written_as(ids)

    assert tokenizer.encode(written) == ids


@pytest.mark.parametrize("name", ["byte-level", "metaspace", "tiny-chat"])
def test_the_begin_token_is_not_written_where_the_backend_adds_it(name: str) -> None:
    tokenizer = family(name)
    begin = tokenizer.decode(tokenizer.encode("")[:1], special=True)
    rendered = f"{begin}the dog"

    written = tokenizer.written_as(tokenizer.encode(rendered, special=False), known=rendered)

    assert written == "the dog"


def test_the_text_that_tokens_were_read_from_is_kept_where_they_lost_some_of_it() -> None:
    library = word_piece()
    begin = library.token_to_id("[CLS]")
    assert begin is not None
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair=None, special_tokens=[("[CLS]", begin)]
    )
    tokenizer = reads(library)
    rendered = "[CLS]The  Dog"

    written = tokenizer.written_as(tokenizer.encode(rendered, special=False), known=rendered)

    assert written == "The  Dog"


def test_tokens_that_text_cannot_say_are_refused_with_the_first_difference() -> None:
    tokenizer = family("byte-level")
    whole = tokenizer.encode("the")
    letters = [id for letter in "the" for id in tokenizer.encode(letter, special=False)]

    with pytest.raises(
        InvalidRequest, match=rf"\(token {letters[0]} at index 1 would become {whole[1]}\)"
    ):
        tokenizer.written_as((whole[0], *letters))


def test_a_prompt_without_its_begin_token_is_refused() -> None:
    tokenizer = family("byte-level")
    ids = tokenizer.encode("the dog", special=False)

    with pytest.raises(InvalidRequest, match=rf"token {ids[0]} at index 0 would become 1"):
        tokenizer.written_as(ids)


def test_a_token_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidRequest, match="token 99999 at index 1 is not in the vocabulary"):
        family("byte-level").written_as((1, 99999))


@pytest.mark.parametrize("name", FAMILIES)
def test_these_families_give_back_what_they_read(name: str) -> None:
    assert family(name).faithful


def test_a_tokenizer_that_folds_cases_is_not_faithful() -> None:
    assert not family("word-piece").faithful


@pytest.mark.parametrize("name", FAMILIES)
def test_every_token_is_found_again_by_its_bytes(name: str) -> None:
    tokenizer = family(name)

    for id in tokenizer.encode("the dog doesn't mind naïve 你", special=False):
        text, raw = tokenizer.name(id)

        assert tokenizer.id_of(text, raw) == id


def test_half_a_character_is_named_by_its_bytes() -> None:
    tokenizer = family("byte-level")
    halves = [tokenizer.name(id) for id in tokenizer.encode("\u0489", special=False)]

    assert [text for text, _ in halves] == ["\ufffd", "\ufffd"]
    assert b"".join(bytes(raw or ()) for _, raw in halves) == "\u0489".encode()


def test_special_tokens_and_the_end_come_from_the_neighbouring_files(tmp_path: Path) -> None:
    byte_level().save(str(tmp_path / "tokenizer.json"))
    config = {"eos_token": {"content": "</s>", "lstrip": False}, "chat_template": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))

    tokenizer = load_tokenizer(tmp_path)

    assert tokenizer.end == 2
    assert tokenizer.chat is None
    assert tokenizer.specials == {0, 1, 2, 3, 4}


def test_an_older_map_of_special_tokens_is_read_too(tmp_path: Path) -> None:
    byte_level().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "</s>"}')

    assert load_tokenizer(tmp_path / "tokenizer.json").end == 2


def test_a_file_and_its_folder_mean_the_same_tokenizer() -> None:
    assert load_tokenizer(TINY) is load_tokenizer(TINY / "tokenizer.json")


@pytest.mark.parametrize(
    ("file", "content", "reported"),
    [
        ("tokenizer.json", "{}", "cannot load a tokenizer"),
        ("tokenizer_config.json", '{"eos_token": 7}', "at `$.eos_token`"),
        ("chat_template.jinja", "{% if %}", "invalid chat template, line 1"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_fault_of_the_configuration(
    tmp_path: Path, file: str, content: str, reported: str
) -> None:
    byte_level().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / file).write_text(content)

    with pytest.raises(InvalidConfig) as caught:
        load_tokenizer(tmp_path)

    assert reported in str(caught.value)


def test_a_path_without_a_tokenizer_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot be read: No such file"):
        load_tokenizer(tmp_path)
