"""What guided decoding asks of a grammar, whoever has compiled it."""

from typing import Protocol

from torch import Tensor


class Grammar(Protocol):
    """The state of one answer in its grammar; the engine's thread owns it."""

    @property
    def field(self) -> str:
        """The request's field that demands this form."""
        ...

    def allow(self, row: Tensor) -> None:
        """Writes what may come next into `row`, bool [V] on the CPU: True is permitted.

        End tokens are permitted where the answer may end. At least one token always is.
        """
        ...

    def advance(self, token: int) -> None:
        """The answer got `token`, which was permitted or is its end."""
        ...

    def fork(self) -> "Grammar":
        """An independent copy, for an answer that goes on from here."""
        ...

    @property
    def over(self) -> bool:
        """The answer is complete, and nothing can follow."""
        ...

    @property
    def failure(self) -> str:
        """Why the answer cannot go on, "" as long as it can."""
        ...
