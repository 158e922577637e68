"""A provider's tokenizer: text to tokens and back, and whether the round trip is exact.

Uses the tokenizers library's own object, which is safe to use from several threads.
"""

# tokenizers annotates its members only in part:
# pyright: reportUnknownMemberType=false

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeVar, cast

import tokenizers

from strowger_gateway.gateway.backends.upstream.adaptation.chat_template import ChatTemplate
from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer_files import (
    read_tokenizer_files,
    tokenizer_file,
)
from strowger_gateway.local_engine.child_process.text_encoder import (
    INLINE,
    Encoding,
    Offload,
    TextEncoder,
    reading_gate,
    run_offloaded,
)
from strowger_gateway.local_engine.text.control_tokens import ControlTokens, Rendered
from strowger_gateway.local_engine.text.private_tokenizer import (
    Normalizer,
    normalizing,
    private_encoder,
)
from strowger_gateway.local_engine.text.token_bytes import TokenBytes, fallback_byte
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest
from strowger_gateway.schemas.holdings import Holder
from strowger_gateway.schemas.prompt_too_long import CONTEXT_LENGTH, too_long_message

MAX_TOKENS = 1 << 20
"""Maximum tokens of a prompt; more than any backend behind a tokenizer accepts."""

ANCHORS = ("\n", "a", ".")
"""Prefixes for a text that continues another one, so that no tokenizer treats it as the
beginning; the first one that does not merge with the text is used."""

SAMPLE = "Hello  world,\n\tcafé №12345 — 你好 🎉 (x_1)"

_Result = TypeVar("_Result")


class TokenizerLibrary(Protocol):
    """The part of `tokenizers.Tokenizer` that is used."""

    @property
    def normalizer(self) -> Normalizer | None: ...

    def encode_batch_fast(
        self, input: list[str], *, add_special_tokens: bool
    ) -> list[Encoding]: ...

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str: ...

    def decode_batch(self, sequences: list[list[int]], skip_special_tokens: bool) -> list[str]: ...

    def id_to_token(self, id: int) -> str | None: ...

    def token_to_id(self, token: str) -> int | None: ...

    def get_vocab(self, with_added_tokens: bool) -> dict[str, int]: ...

    def get_added_tokens_decoder(self) -> dict[int, "AddedToken"]: ...

    def no_padding(self) -> None: ...

    def no_truncation(self) -> None: ...

    def to_str(self) -> str: ...


class AddedToken(Protocol):
    content: str
    special: bool


class NotTokenizable(Exception):
    """No token sequence decodes to exactly this text."""


class TextTokenizer:
    """All methods may be called from any thread.

    end:      the id of the end token, `None` if the files name none.
    specials: ids without visible text.
    chat:     the model's chat template, `None` if there is none.
    faithful: it can reproduce what it reads; a tokenizer that folds case or spaces cannot.
    """

    def __init__(
        self, library: TokenizerLibrary, *, end: str = "", chat: ChatTemplate | None = None
    ) -> None:
        library.no_truncation()
        library.no_padding()
        self._library = library
        description = library.to_str()
        self._bytes = TokenBytes(description)
        key = sha256(description.encode()).hexdigest()
        self._encoder = TextEncoder(library, key, library.to_str)
        self._key = key
        added = library.get_added_tokens_decoder()
        self._added = {id: token.content for id, token in added.items()}
        self.specials = frozenset(id for id, token in added.items() if token.special)
        self.end = library.token_to_id(end) if end else None
        self.chat = chat
        bare, full = self.encode("a", special=False), self.encode("a")
        at = _find(full, bare)
        self._prefix, self._suffix = full[:at], full[at + len(bare) :]
        self._anchors = [
            (text, ids, self.decode(ids, special=True))
            for text in ANCHORS
            if (ids := self.encode(text, special=False))
        ]
        self.spell = lru_cache(maxsize=8192)(self._spell)
        self._by_bytes: dict[bytes, int] | None = None
        self.faithful = self._gives_back(SAMPLE)

    @cached_property
    def controls(self) -> ControlTokens:
        """The control tokens, which clients' text in a conversation never becomes."""
        source = "" if self.chat is None else self.chat.source
        return ControlTokens(self._library.to_str(), source, normalizing(self._library))

    @cached_property
    def respelt(self) -> TextEncoder:
        """Reads conversations in which a client spells control tokens; created while loading.

        Raises InvalidConfig if the tokenizer's control tokens cannot be separated from text.
        """
        return private_encoder(self._library.to_str(), self.controls, f"{self._key} respelt")

    def encode(self, text: str, *, special: bool = True) -> tuple[int, ...]:
        """special: add what the model expects around a text (its begin token)."""
        return tuple(self._encoder.encode(text, special=special)[0])

    def read(
        self, prompt: str | Rendered, *, special: bool = True, offload: Offload | None = None
    ) -> tuple[int, ...]:
        """Tokenize a prompt of any length. A conversation's control tokens come from its template.

        offload: see TextEncoder.encode. Raises InvalidRequest and Unavailable as that does.
        """
        encoder = self._encoder
        text = prompt if isinstance(prompt, str) else prompt.text
        if isinstance(prompt, Rendered) and prompt.spelled:
            encoder, text = self.respelt, prompt.spelled
        ids, count = encoder.encode(text, special=special, limit=MAX_TOKENS, offload=offload)
        check_length(count, whole=len(ids) == count)
        return tuple(ids)

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """special: show special tokens too. Bytes that are not UTF-8 become U+FFFD."""
        if len(ids) <= INLINE:
            return self._library.decode(list(ids), skip_special_tokens=not special)
        (text,) = self._library.decode_batch([list(ids)], skip_special_tokens=not special)
        return text

    def written_as(self, ids: tuple[int, ...], *, known: str = "") -> str:
        """Return a text that a backend with this tokenizer reads as exactly these tokens.

        known: a text to try first. Raises InvalidRequest, without a field, if there is none.
        """
        check_length(len(ids))
        for place, id in enumerate(ids):
            if self._library.id_to_token(id) is None:
                raise InvalidRequest(f"token {id} at index {place} is not in the vocabulary")
        for text in self._candidates(ids, known):
            if self.encode(text) == ids:
                return text
        raise InvalidRequest(
            "the backend accepts text, and would tokenize the text of these tokens differently"
            f" ({self._difference(ids)}); send text, or tokens as the model's tokenizer makes them"
        )

    def name(self, id: int) -> tuple[str, tuple[int, ...] | None]:
        """Return a token's text for log probabilities, and its bytes if they are not UTF-8."""
        if id in self._added:
            return self._added[id], None
        token = self._library.id_to_token(id)
        raw = b"" if token is None else self._bytes.of(token)
        text = raw.decode(errors="replace")
        return text, None if "\ufffd" not in text else tuple(raw)

    def id_of(self, text: str, raw: Sequence[int] | None = None) -> int | None:
        """Return the token of this text, or of these bytes; `None` if there is none."""
        return self.index().get(text.encode() if raw is None else bytes(raw))

    def index(self) -> dict[bytes, int]:
        """Return every token by its bytes; computed once, which is slow for a large vocabulary."""
        if self._by_bytes is None:
            self._by_bytes = self._indexed()
        return self._by_bytes

    def _spell(self, text: str) -> tuple[int, ...]:
        """Return tokens that add exactly this text to a preceding one; raises NotTokenizable."""
        for anchor, ids, shown in self._anchors:
            joined = self.encode(anchor + text, special=False)
            if joined[: len(ids)] == ids and self.decode(joined, special=True) == shown + text:
                return joined[len(ids) :]
        return self._by_byte(text)

    def _by_byte(self, text: str) -> tuple[int, ...]:
        """Tokenize byte by byte, for text that normalization would change."""
        found = [self._library.token_to_id(self._bytes.one(byte)) for byte in text.encode()]
        ids = tuple(id for id in found if id is not None)
        _, before, shown = self._anchors[0]
        if len(ids) < len(found) or self.decode(before + ids, special=True) != shown + text:
            raise NotTokenizable(text)
        return ids

    def _candidates(self, ids: tuple[int, ...], known: str) -> list[str]:
        inner = ids
        if ids[: len(self._prefix)] == self._prefix:
            inner = inner[len(self._prefix) :]
        if self._suffix and inner[-len(self._suffix) :] == self._suffix:
            inner = inner[: -len(self._suffix)]
        start = self.decode(self._prefix, special=True)
        texts = [known, known.removeprefix(start)] if known else []
        texts += [self.decode(inner, special=True), self._in_runs(inner)]
        texts += [self.decode(ids, special=True)]
        return list(dict.fromkeys(texts))

    def _in_runs(self, ids: tuple[int, ...]) -> str:
        """Decode each run between added tokens alone, for tokenizers that restart after each."""
        texts: list[str] = []
        for added, run in groupby(ids, key=self._added.get):
            members = tuple(run)
            texts.append(added * len(members) if added else self.decode(members))
        return "".join(texts)

    def _difference(self, ids: tuple[int, ...]) -> str:
        """Describe the first token that the backend would read differently."""
        read = self.encode(self._candidates(ids, "")[0])
        for place, (mine, theirs) in enumerate(zip(ids, read, strict=False)):
            if mine != theirs:
                return f"token {mine} at index {place} would become {theirs}"
        return f"{len(ids)} tokens would become {len(read)}"

    def _indexed(self) -> dict[bytes, int]:
        index: dict[bytes, int] = {}
        for token, id in self._library.get_vocab(with_added_tokens=False).items():
            raw = self._bytes.of(token)
            if raw not in index or fallback_byte(token) is None:
                index[raw] = id
        index.update({content.encode(): id for id, content in self._added.items()})
        return index

    def _gives_back(self, text: str) -> bool:
        try:
            self._spell(text)
        except NotTokenizable:
            return False
        return True


def check_length(count: int, most: int | None = None, *, whole: bool = True) -> None:
    """Raise InvalidRequest for a prompt of more than MAX_TOKENS, or more than `most`.

    most: tokens of the longest prompt that may fit the model; `None` if unknown.
    whole: `count` is of the whole prompt, not of a part.
    """
    limit, what = MAX_TOKENS, ", the maximum for translation"
    if most is not None and most < MAX_TOKENS:
        limit, what = most, ""
    if count > limit:
        found = count if whole else f"at least {count}"
        raise InvalidRequest(
            too_long_message(f"{what}, and the prompt has {found}; shorten it", limit),
            param="prompt",
            code=CONTEXT_LENGTH,
        )


async def aside(size: int, work: Callable[[], _Result]) -> _Result:
    """Run `work` here, or in a thread if it is large. size: characters or tokens."""
    return work() if size <= INLINE else await asyncio.to_thread(work)


async def reading(size: int, work: Callable[[Offload | None], _Result], tenant: str) -> _Result:
    """Run `work` for a prompt, in turn by tenant; very long ones run in a child process."""
    if size <= INLINE:
        return work(None)
    async with _reading.slot(Holder(tenant)):
        return await run_offloaded(work)


_reading = reading_gate("this gateway")


@lru_cache(maxsize=32)
def _loaded(file: Path, changed: int) -> TextTokenizer:
    try:
        library = cast("TokenizerLibrary", tokenizers.Tokenizer.from_file(str(file)))
    except Exception as exc:  # tokenizers raises nothing narrower
        raise InvalidConfig((f"{file}: cannot load a tokenizer: {exc}",)) from exc
    beside = read_tokenizer_files(file)
    try:
        chat = ChatTemplate(beside.template, beside.special) if beside.template else None
    except InvalidConfig as exc:
        raise InvalidConfig(tuple(f"{file.parent}: {fault}" for fault in exc.problems)) from exc
    tokenizer = TextTokenizer(library, end=beside.special.get("eos_token", ""), chat=chat)
    if chat is not None:
        try:
            _ = tokenizer.respelt
        except InvalidConfig as exc:
            raise InvalidConfig(tuple(f"{file}: {fault}" for fault in exc.problems)) from exc
    return tokenizer


def load_tokenizer(path: Path) -> TextTokenizer:
    """path: a tokenizer.json or the folder that contains one; each is loaded once.

    Raises InvalidConfig for unreadable files.
    """
    file = tokenizer_file(path)
    try:
        changed = file.stat().st_mtime_ns
    except OSError as exc:
        raise InvalidConfig((f"{file}: cannot be read: {exc.strerror}",)) from exc
    return _loaded(file, changed)


def _find(whole: tuple[int, ...], part: tuple[int, ...]) -> int:
    """Return the index of `part` in `whole`; 0 if it does not occur."""
    for at in range(len(whole) - len(part) + 1):
        if whole[at : at + len(part)] == part:
            return at
    return 0
