"""Text to tokens without holding up others, for the engine and for the gateway's own tokenizers.

What a text costs goes by its length: a short one is encoded where it is asked for, a longer one in
a thread, and a long one in a child process, which can be stopped. The tokenizers library lets
other threads run while it encodes a batch, and only then.
"""

from typing import Protocol


class Encoding(Protocol):
    ids: list[int]

    def __len__(self) -> int: ...


class BatchEncoder(Protocol):
    """The part of `tokenizers.Tokenizer` that encodes."""

    def encode_batch_fast(
        self, input: list[str], *, add_special_tokens: bool
    ) -> list[Encoding]: ...
