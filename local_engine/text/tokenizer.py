"""A model's tokenizer: text to tokens, tokens to text, and the bytes of a single token.

Uses the tokenizers library's object, which several threads may share; transformers only loads it.
"""

# transformers and tokenizers annotate these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Iterable
from copy import copy
from typing import Protocol, cast

from strowger_gateway.local_engine.child_process.text_encoder import Encoding, Offload, TextEncoder
from strowger_gateway.local_engine.text.chat_template import ChatTemplate
from strowger_gateway.local_engine.text.control_tokens import ControlTokens, Rendered
from strowger_gateway.local_engine.text.private_tokenizer import (
    Normalizer,
    normalizing,
    private_encoder,
)
from strowger_gateway.local_engine.text.token_bytes import TokenBytes
from strowger_gateway.local_engine.text.tokenizer_bounds import refuse_growth
from strowger_gateway.local_engine.text.tokenizer_files import read_tokenizer
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest


class Backend(Protocol):
    """The part of `tokenizers.Tokenizer` that is used."""

    def encode_batch_fast(
        self, input: list[str], *, add_special_tokens: bool
    ) -> list[Encoding]: ...

    @property
    def normalizer(self) -> Normalizer | None: ...

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str: ...

    def id_to_token(self, id: int) -> str | None: ...

    def token_to_id(self, token: str) -> int | None: ...

    def get_vocab_size(self, with_added_tokens: bool) -> int: ...

    def get_vocab(self, with_added_tokens: bool) -> dict[str, int]: ...

    def no_padding(self) -> None: ...

    def no_truncation(self) -> None: ...

    def to_str(self) -> str: ...


class Tokenizer:
    """Loaded once per model. Every method may be called from any thread.

    It never truncates or pads, even if the files request it.
    longest: the model's limit in tokens according to its files; a huge number if they have none.
    """

    def __init__(
        self, path: str, *, subfolder: str = "", parses: bool = True, embeds: bool = False
    ) -> None:
        """parses: the spelling of a special token in a raw prompt becomes that token.
        embeds: see `read_tokenizer`.

        Raises InvalidConfig if the files are missing or do not describe a fast tokenizer."""
        try:
            loaded = read_tokenizer(path, subfolder, ends=embeds)
        except Exception as exc:
            said = " ".join(str(exc).split()) or type(exc).__name__
            raise InvalidConfig(
                (f"the tokenizer at {path} cannot be loaded: {said}; download its files again",)
            ) from exc
        backend = cast(Backend | None, getattr(loaded, "backend_tokenizer", None))
        if backend is None:
            raise InvalidConfig(
                (f"the tokenizer at {path} has no tokenizer.json; convert it to one",)
            )
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._bytes = TokenBytes(backend.to_str())
        self._encoder = TextEncoder(backend, path + subfolder, self.describe)
        self._parses = parses
        self._limit: int | None = None
        self.longest = int(cast(float, loaded.model_max_length))
        self.end = cast(int | None, loaded.eos_token_id)
        self._begin = cast(int | None, loaded.bos_token_id)
        self.specials = frozenset(loaded.all_special_ids)
        self.chat = ChatTemplate(loaded)
        description = self.describe()
        refuse_growth(description)
        self.controls = ControlTokens(description, self.chat.source, normalizing(backend))
        self._respelt = private_encoder(description, self.controls, path + subfolder + " respelt")

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """special: add the tokens that the model expects around a text (its begin token)."""
        return self._within(self._encoder.encode(text, special=special))[0]

    def encode_prompt(
        self, text: str, *, special: bool = True, most: int, offload: Offload | None
    ) -> tuple[list[int], int]:
        """Return a raw prompt's last `most` tokens and the count of all. See TextEncoder.encode."""
        encoder = self._encoder if self._parses else self._respelt
        return self._within(encoder.encode(text, special=special, most=most, offload=offload))

    def encode_chat(
        self, rendered: Rendered, *, most: int, offload: Offload | None
    ) -> tuple[list[int], int]:
        """Return the same for a conversation; only its template's control tokens count as such."""
        encoder, text = self._encoder, rendered.text
        if rendered.spelled:
            encoder, text = self._respelt, rendered.spelled
        return self._within(encoder.encode(text, special=False, most=most, offload=offload))

    def limit(self, vocabulary: int) -> None:
        """From now on, refuse texts that spell a token whose id is not below `vocabulary`."""
        self._limit = vocabulary

    def _within(self, encoded: tuple[list[int], int]) -> tuple[list[int], int]:
        ids, _ = encoded
        if self._limit is not None and ids and max(ids) >= self._limit:
            token = next(id for id in ids if id >= self._limit)
            raise InvalidRequest(
                f"the text spells {self._backend.id_to_token(token)!r}, a token that the model "
                "lacks; leave it out"
            )
        return encoded

    def tokens(self) -> dict[str, int]:
        """Return the ids of all tokens, by spelling."""
        return self._backend.get_vocab(with_added_tokens=True)

    def needed(self, tokens: Iterable[str]) -> list[str]:
        """Return those of the tokens that texts, conversations or answers need."""
        ordinary = self._backend.get_vocab(with_added_tokens=False)
        begin_end = {self.end, self._begin}
        return [
            token
            for token in tokens
            if token in ordinary or token in self.chat.source or self.token_of(token) in begin_end
        ]

    def decode(self, ids: list[int]) -> str:
        """Decode without special tokens; bytes that are not UTF-8 become U+FFFD."""
        return self._backend.decode(ids, skip_special_tokens=True)

    @property
    def size(self) -> int:
        """Number of tokens; the model's logits may have more columns."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def token_of(self, text: str) -> int | None:
        """Return the token with this spelling, or `None`."""
        return self._backend.token_to_id(text)

    def describe(self) -> str:
        """Return the content of tokenizer.json, without padding and truncation."""
        plain = copy(self._backend)
        plain.no_padding()
        plain.no_truncation()
        return plain.to_str()

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes that one token adds to a text, or a special token's name."""
        token = self._backend.id_to_token(id)
        if token is None:
            return b""
        if id in self.specials:
            return token.encode()
        return self._bytes.of(token)
