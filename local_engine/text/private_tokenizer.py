"""A model's second tokenizer, which knows control tokens by their private spellings only."""

# tokenizers annotates these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Protocol, cast

import tokenizers

from strowger_gateway.local_engine.child_process.text_encoder import BatchEncoder, TextEncoder
from strowger_gateway.local_engine.text.control_tokens import ControlTokens
from strowger_gateway.schemas.errors import InvalidConfig


class Normalizer(Protocol):
    def normalize_str(self, sequence: str) -> str: ...


class TokenizerLibrary(Protocol):
    """The part of `tokenizers.Tokenizer` that is used."""

    @property
    def normalizer(self) -> Normalizer | None: ...

    def token_to_id(self, token: str) -> int | None: ...


def normalizing(library: TokenizerLibrary) -> Callable[[str], str] | None:
    """Return the tokenizer's normalization, or `None` if it has none."""
    normalizer = library.normalizer
    return None if normalizer is None else normalizer.normalize_str


def private_encoder(description: str, controls: ControlTokens, key: str) -> TextEncoder:
    """Return an encoder with private spellings of control tokens.

    description: the content of tokenizer.json. key: names it in child processes.
    Raises InvalidConfig if the tokenizer's control tokens cannot be distinguished from text.
    """
    source = controls.respelt(description)
    try:
        made = tokenizers.Tokenizer.from_str(source)
    except Exception as exc:
        raise InvalidConfig(
            (f"the tokenizer's special tokens cannot be distinguished from text: {exc}",)
        ) from exc
    made.no_truncation()
    made.no_padding()
    for id, spelling in controls.ids.items():
        if made.token_to_id(spelling) != id:
            raise InvalidConfig(
                (f"the tokenizer's token {id} cannot be distinguished from text: its id changes",)
            )
    return TextEncoder(cast(BatchEncoder, made), key, lambda: source)
