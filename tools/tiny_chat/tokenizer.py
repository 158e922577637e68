"""The bundled model's tokenizer: byte-level BPE with a token for every digit, and its template."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from tools.tiny_chat.corpus import (
    ASSISTANT,
    BOS,
    END,
    PAD,
    SPECIAL_TOKENS,
    SYSTEM,
    TOOL,
    USER,
)

VOCAB_SIZE = 1024
CONTEXT_LENGTH = 1024

# Content may be text, absent (an assistant that only called tools), or a list of typed parts.
CHAT_TEMPLATE = (
    "{%- macro text(content) -%}"
    "{%- if content is string -%}{{- content -}}"
    "{%- elif content -%}"
    "{%- for part in content -%}"
    "{%- if part.type == 'text' -%}{{- part.text -}}"
    "{%- else -%}{{- raise_exception('tiny-chat reads text only, not ' ~ part.type) -}}"
    "{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- endmacro -%}"
    "{{- bos_token -}}"
    "{%- for message in messages -%}"
    "{%- if message.role in ('system', 'developer') -%}{{- '" + SYSTEM + "' -}}"
    "{%- elif message.role == 'user' -%}{{- '" + USER + "' -}}"
    "{%- elif message.role == 'assistant' -%}{{- '" + ASSISTANT + "' -}}"
    "{%- elif message.role in ('tool', 'function') -%}{{- '" + TOOL + "' -}}"
    "{%- else -%}{{- raise_exception('tiny-chat knows no role ' ~ message.role) -}}{%- endif -%}"
    "{{- text(message.content) -}}"
    "{{- eos_token -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '" + ASSISTANT + "' -}}{%- endif -%}"
)


def build_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learn the merges from `texts`; any Unicode text survives encoding and decoding.

    Encoding with special tokens prepends <|bos|>; the chat template writes its own.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
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
        additional_special_tokens=[SYSTEM, USER, ASSISTANT, TOOL],
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_LENGTH,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
