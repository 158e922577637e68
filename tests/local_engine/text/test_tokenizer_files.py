"""tokenizer.json decides how a text becomes tokens, whatever class tokenizer_config.json names."""

# tokenizers annotates these members in part only:
# pyright: reportUnknownMemberType=false

from pathlib import Path

import msgspec
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from strowger_gateway.local_engine.text import tokenizer as engine
from strowger_gateway.schemas.messages import Message
from tests.local_engine.embeddings.tiny_embedders import save_words
from tests.local_engine.loading.broken_checkpoints import JSON, write
from tests.local_engine.tiny import SPECIALS, save_tokenizer

TEXT = "2023 Don't DON'T 650841823 the Fox  café cafe\u0301"
BYTES = pre_tokenizers.ByteLevel
SPLITS = {
    "as GPT-2": BYTES(add_prefix_space=False),
    "three digits": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"), BYTES(add_prefix_space=False)]
    ),
    "single digits": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), BYTES(add_prefix_space=False)]
    ),
    "words": pre_tokenizers.Metaspace(),
}
NORMALIZERS = {"as is": None, "composed": normalizers.NFC(), "lower": normalizers.Lowercase()}
CLASSES = (
    *("LlamaTokenizerFast", "LlamaTokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer"),
    *("GPTNeoXTokenizerFast", "CohereTokenizerFast", "GemmaTokenizer", "XLMRobertaTokenizerFast"),
    *("PreTrainedTokenizerFast", "SomeTokenizerOfTheFuture"),
)


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    """A tokenizer that knows long numbers, contractions and capitals as tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = BYTES(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        ["2023 2023 2024 20230 650841823 650841823 the fox, the Fox", "Don't DON'T we'll café"] * 3,
        trainers.BpeTrainer(
            vocab_size=500,
            special_tokens=SPECIALS,
            initial_alphabet=BYTES.alphabet(),
            show_progress=False,
        ),
    )
    return made


def changed(folder: Path, **fields: object) -> None:
    """Change tokenizer_config.json; `None` removes a field."""
    path = folder / "tokenizer_config.json"
    found = {**msgspec.json.decode(path.read_bytes(), type=JSON), **fields}
    write(path, {name: value for name, value in found.items() if value is not None})


def ids_of(folder: Path) -> list[int]:
    """What the file alone makes of the text."""
    return Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT).ids


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("name", CLASSES)
def test_a_text_becomes_the_tokens_of_the_file(
    name: str, kind: str, trained: Tokenizer, tmp_path: Path
) -> None:
    save_tokenizer(tmp_path)
    changed(tmp_path, tokenizer_class=name)
    write(tmp_path / "config.json", {"model_type": kind})
    for split in SPLITS.values():
        for normalizer in NORMALIZERS.values():
            one = Tokenizer.from_str(trained.to_str())
            one.pre_tokenizer = split
            if normalizer is not None:
                one.normalizer = normalizer
            one.save(str(tmp_path / "tokenizer.json"))

            assert engine.Tokenizer(str(tmp_path)).encode(TEXT) == ids_of(tmp_path)


def test_the_end_token_that_no_file_names_is_that_of_the_class(tmp_path: Path) -> None:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = BYTES(add_prefix_space=False)
    made.train_from_iterator(
        [TEXT], trainers.BpeTrainer(special_tokens=["<|endoftext|>"], show_progress=False)
    )
    made.save(str(tmp_path / "tokenizer.json"))
    write(tmp_path / "tokenizer_config.json", {"model_max_length": 1024})
    write(tmp_path / "config.json", {"model_type": "gpt2"})

    tokenizer = engine.Tokenizer(str(tmp_path))

    assert tokenizer.end == tokenizer.token_of("<|endoftext|>") == 0
    assert tokenizer.encode(TEXT) == ids_of(tmp_path)


CASES: dict[str, tuple[JSON, bool, list[str]]] = {
    "lower, as both files say": ({"do_lower_case": True}, True, ["fox", "the"]),
    "lower, by the configuration": ({"do_lower_case": True}, False, ["fox", "the"]),
    "not lower, by the configuration": ({"do_lower_case": False}, True, ["Fox", "the"]),
    "lower, as only the file says": ({}, True, ["fox", "the"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bert_tokenizer_follows_its_configuration_where_that_says_something(
    case: str, tmp_path: Path
) -> None:
    fields, stored, expected = CASES[case]
    words = ["[UNK]", "[CLS]", "[SEP]", "fox", "Fox", "the"]
    made = Tokenizer(
        models.WordPiece(vocab={word: id for id, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.normalizer = normalizers.BertNormalizer(lowercase=stored)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.save(str(tmp_path / "tokenizer.json"))
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **fields})
    write(tmp_path / "config.json", {"model_type": "bert"})

    tokenizer = engine.Tokenizer(str(tmp_path), embeds=True)

    assert tokenizer.encode("Fox the") == [words.index(word) for word in expected]


def only_begin(folder: Path) -> None:
    """As e5-mistral: the file begins texts, and the configuration says that they end, too."""
    begin, first = (
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    )
    template: JSON = {
        "type": "TemplateProcessing",
        "single": [begin, first],
        "pair": [begin, first, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    path = folder / "tokenizer.json"
    write(path, {**msgspec.json.decode(path.read_bytes(), type=JSON), "post_processor": template})


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("embeds", [True, False])
def test_texts_to_embed_end_with_the_end_token_if_the_configuration_says_so(
    said: bool, embeds: bool, tmp_path: Path
) -> None:
    save_words(tmp_path, decoder=True)
    only_begin(tmp_path)
    changed(tmp_path, tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=said)
    tokenizer = engine.Tokenizer(str(tmp_path), embeds=embeds)

    ids = tokenizer.encode("the fox")

    assert ids == [1, 4, 7, *((2,) * (said and embeds))]
    assert tokenizer.encode_prompt("the fox", most=9, offload=None) == (ids, len(ids))
    assert tokenizer.encode("the fox", special=False) == [4, 7]


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_a_text_begins_with_the_begin_token_if_the_configuration_of_a_llama_says_so(
    said: bool, stored: bool, tmp_path: Path
) -> None:
    save_words(tmp_path, decoder=True)
    if stored:
        only_begin(tmp_path)
    found: dict[str, list[int]] = {}
    for kind in ("LlamaTokenizerFast", "GemmaTokenizer", "PreTrainedTokenizerFast"):
        changed(tmp_path, tokenizer_class=kind, add_bos_token=said)
        tokenizer = engine.Tokenizer(str(tmp_path))
        found[kind] = [id for id in tokenizer.encode("the fox") if id != 2]
        assert tokenizer.encode("the fox", special=False) == [4, 7]

    assert found["LlamaTokenizerFast"] == found["GemmaTokenizer"] == [*((1,) * said), 4, 7]
    assert found["PreTrainedTokenizerFast"] == [*((1,) * stored), 4, 7]


def test_an_end_token_that_the_file_adds_is_added_once(tmp_path: Path) -> None:
    save_words(tmp_path, decoder=True)
    changed(tmp_path, add_eos_token=True)

    assert engine.Tokenizer(str(tmp_path), embeds=True).encode("the fox") == [4, 7, 2]


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_template_in_json_counts_where_there_is_no_other(elsewhere: bool, tmp_path: Path) -> None:
    save_tokenizer(tmp_path, template="{{ messages[0].content }}!" if elsewhere else None)
    write(tmp_path / "chat_template.json", {"chat_template": "{{ messages[0].content }}?"})

    chat = engine.Tokenizer(str(tmp_path)).chat

    assert chat.render((Message(role="user", content="hi"),)) == ("hi!" if elsewhere else "hi?")
