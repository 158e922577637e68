"""Tokenizers of all families, small enough to be trained in a test."""

# tokenizers annotates its own members in part only:
# pyright: reportUnknownMemberType=false

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import cast

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import (
    TextTokenizer,
    TokenizerLibrary,
    load_tokenizer,
)

TINY = Path(__file__).parents[5] / "local_engine" / "bundled" / "tiny-chat"

CORPUS = [
    "the quick brown fox jumps over the lazy dog, and the dog doesn't mind at all.\n",
    "def area(self, width, height):\n    return self.scale * width * height\n\n",
    "Grüße aus München; naïve café, 12345 and 67.89!  Two  spaces\tand a tab.\n",
    "你好，世界。今天天气很好，我们去公园散步吧。 🎉 и ещё немного текста\n",
] * 4

SPECIAL = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>"]


def _begins(tokenizer: Tokenizer) -> None:
    """The model expects <s> before a text, as Llama's do."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A",
        pair=None,
        special_tokens=[("<s>", cast("int", tokenizer.token_to_id("<s>")))],
    )


def byte_level(*, begins: bool = True, normal: bool = False) -> Tokenizer:
    """GPT-2's kind. begins: adds <s>. normal: composes characters first, as Qwen's does."""
    tokenizer = Tokenizer(models.BPE())
    if normal:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if begins:
        _begins(tokenizer)
    return tokenizer


def metaspace() -> Tokenizer:
    """SentencePiece's kind, as Llama 2 has it: a space before the first word, bytes as <0xNN>."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=SPECIAL, limit_alphabet=60, show_progress=False
    )
    words = [word for line in CORPUS for word in line.replace(" ", "\n ").split("\n")]
    tokenizer.train_from_iterator(words, trainer)
    tokenizer.add_tokens([AddedToken(piece, special=False, normalized=False) for piece in pieces])
    return _with_bytes(tokenizer, pieces)


def word_piece() -> Tokenizer:
    """BERT's kind: cases and runs of spaces are lost."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _with_bytes(tokenizer: Tokenizer, pieces: list[str]) -> Tokenizer:
    """The same with its byte pieces in the model, where byte fallback looks for them."""
    import json

    described = json.loads(tokenizer.to_str())
    vocabulary: dict[str, int] = described["model"]["vocab"]
    for piece in pieces:
        vocabulary[piece] = cast("int", tokenizer.token_to_id(piece))
    described["added_tokens"] = [
        one for one in described["added_tokens"] if one["content"] in SPECIAL
    ]
    rebuilt = Tokenizer.from_str(json.dumps(described))
    _begins(rebuilt)
    return rebuilt


def reads(tokenizer: Tokenizer, end: str = "</s>") -> TextTokenizer:
    return TextTokenizer(cast("TokenizerLibrary", tokenizer), end=end)


@cache
def family(name: str) -> TextTokenizer:
    """One of FAMILIES, made once."""
    match name:
        case "byte-level":
            return reads(byte_level())
        case "byte-level, composing":
            return reads(byte_level(begins=False, normal=True))
        case "metaspace":
            return reads(metaspace())
        case "tiny-chat":
            return load_tokenizer(TINY)
        case _:
            return reads(word_piece(), end="[SEP]")


FAMILIES = ("byte-level", "byte-level, composing", "metaspace", "tiny-chat")
"""Those that give back what they read."""


def cut(text: str, places: list[int]) -> list[str]:
    """Cut the text at these places, modulo its length."""
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]
