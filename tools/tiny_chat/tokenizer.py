"""The bundled model's tokenizer: byte-level BPE with a token for every digit and every space."""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from tools.tiny_chat.layout import BOS, END, PAD, SPECIAL_TOKENS
from tools.tiny_chat.template import CHAT_TEMPLATE

VOCAB_SIZE = 1024
CONTEXT_LENGTH = 1024


def build_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learn the merges from `texts`; any Unicode text survives encoding and decoding.

    A space is a token of its own, so that a word is the same tokens wherever it stands: after a
    space in a question, after a quotation mark in a call, after an underscore in a function's name.
    Encoding with special tokens prepends <|bos|>; the chat template writes its own.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split(Regex(" "), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A",
        pair=f"{BOS} $A $B",
        special_tokens=[(BOS, SPECIAL_TOKENS.index(BOS))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=list(SPECIAL_TOKENS[3:]),
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_LENGTH,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
