"""Load a tokenizer's files: tokenizer.json decides how texts become tokens, wherever there is one.

transformers 5 takes only vocabulary and merges from that file for the classes that it knows, and
splits and normalises texts as the class does. Files that split otherwise get other ids then, and
the model answers to another text than the one sent: https://github.com/huggingface/transformers/issues/45920
"""

# transformers and tokenizers annotate these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, cast

import msgspec
from tokenizers import Tokenizer, processors
from tokenizers.normalizers import BertNormalizer
from transformers.models.auto.tokenization_auto import AutoTokenizer, get_tokenizer_config
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend
from transformers.utils.hub import cached_file

FILE = "tokenizer.json"

TEMPLATE = "chat_template.json"
"""Where models that see have it, written by older versions of transformers."""


_BEGINNING = ("LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer")
"""Classes that heed `add_bos_token`; DeepSeek's file adds no token, its settings demand it."""


class _Read(Protocol):
    def __call__(
        self, path: str, *, subfolder: str, trust_remote_code: bool
    ) -> PreTrainedTokenizerBase: ...


class _Template(msgspec.Struct, frozen=True, kw_only=True):
    chat_template: str


class _BertState(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the normalizer in tokenizer.json."""

    clean_text: bool = True
    handle_chinese_chars: bool = True
    strip_accents: bool | None = None
    lowercase: bool = True


def read_tokenizer(path: str, subfolder: str, *, ends: bool) -> PreTrainedTokenizerBase:
    """Return transformers' tokenizer of a folder or hub name.

    ends: a text ends with the end token if tokenizer_config.json says `add_eos_token`. Embedding
    models are trained with it; a prompt that ends with it has nothing to continue.
    Raises whatever transformers raises for files that it cannot read.
    """
    named = cast(_Read, AutoTokenizer.from_pretrained)
    if _file(path, FILE, subfolder) is None:
        return named(path, subfolder=subfolder, trust_remote_code=False)
    plain = cast(_Read, TokenizersBackend.from_pretrained)
    found = plain(path, subfolder=subfolder, trust_remote_code=False)
    if found.eos_token is None:
        _name_tokens(found, lambda: named(path, subfolder=subfolder, trust_remote_code=False))
    backend = cast(Tokenizer, found.backend_tokenizer)  # pyright: ignore[reportAttributeAccessIssue]  # of all that are loaded from the file
    settings = cast("Callable[..., dict[str, object]]", get_tokenizer_config)(
        path, subfolder=subfolder
    )
    _set_normalizer(backend, settings)
    if str(settings.get("tokenizer_class")).removesuffix("Fast") in _BEGINNING:
        _set_beginning(backend, found, settings.get("add_bos_token"))
    if ends and settings.get("add_eos_token") is True:
        _end_texts(backend, found)
    template = _file(path, TEMPLATE, subfolder) if not found.chat_template else None
    if template is not None:
        stored = msgspec.json.decode(Path(template).read_bytes(), type=_Template)
        found.chat_template = stored.chat_template
    return found


def _file(path: str, name: str, subfolder: str) -> str | None:
    find = cast("Callable[..., str | None]", cached_file)
    return find(
        path,
        name,
        subfolder=subfolder,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )


def _name_tokens(
    found: PreTrainedTokenizerBase, named: Callable[[], PreTrainedTokenizerBase]
) -> None:
    """Take the begin and end tokens from the class, as for GPT-2, whose files name none."""
    try:
        defaults = named()
    except Exception:  # noqa: BLE001  the class may not fit the file; the tokens stay as they are
        return
    known = found.get_vocab()
    for role in ("bos_token", "eos_token"):
        token = cast(object, getattr(defaults, role))
        if isinstance(token, str) and token in known:
            setattr(found, role, token)


def _set_normalizer(backend: Tokenizer, settings: Mapping[str, object]) -> None:
    """Apply the settings of a BERT tokenizer_config.json, which are stronger than tokenizer.json.

    https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/models/bert/tokenization_bert_fast.py
    """
    normalizer = cast(object, backend.normalizer)
    if not isinstance(normalizer, BertNormalizer):
        return
    state = msgspec.json.decode(cast(bytes, normalizer.__getstate__()), type=_BertState)  # pyright: ignore  # untyped

    def chosen(name: str, stored: bool | None) -> bool | None:
        value = settings.get(name, stored)
        return value if isinstance(value, bool) else stored

    backend.normalizer = BertNormalizer(
        clean_text=state.clean_text,
        handle_chinese_chars=bool(chosen("tokenize_chinese_chars", state.handle_chinese_chars)),
        strip_accents=chosen("strip_accents", state.strip_accents),
        lowercase=bool(chosen("do_lower_case", state.lowercase)),
    )


def _set_beginning(backend: Tokenizer, found: PreTrainedTokenizerBase, begins: object) -> None:
    """Apply `add_bos_token`; a post-processor that differs is replaced.

    https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/models/llama/tokenization_llama_fast.py
    """
    token, id = cast(str | None, found.bos_token), cast(int | None, found.bos_token_id)
    if token is None or id is None or not isinstance(begins, bool):
        return
    backend.no_padding()
    backend.no_truncation()
    if (backend.encode("a").ids[:1] == [id]) is begins:
        return
    if not begins:
        backend.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")
        return
    backend.post_processor = processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, id)]
    )


def _end_texts(backend: Tokenizer, found: PreTrainedTokenizerBase) -> None:
    """Append the end token to each text, unless the file's post-processor does."""
    backend.no_padding()
    backend.no_truncation()
    token, id = cast(str | None, found.eos_token), cast(int | None, found.eos_token_id)
    if token is None or id is None or backend.encode("a").ids[-1:] == [id]:
        return
    last = processors.TemplateProcessing(
        single=f"$A {token}", pair=f"$A $B {token}", special_tokens=[(token, id)]
    )
    stored = cast("processors.PostProcessor | None", backend.post_processor)
    backend.post_processor = processors.Sequence([stored, last]) if stored else last
